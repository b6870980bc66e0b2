"""What a job kept by step, over HTTP."""

from pathlib import Path

from fastapi.testclient import TestClient

from tests.integration.api.answers import pages_of
from tests.integration.api.artifacts.conftest import path_of


def test_the_list_says_names_kinds_and_steps_and_has_a_tag(api: TestClient, job_id: str, runs: Path) -> None:
    address, folder = f"/v1/jobs/{job_id}/media", runs / job_id / "artifacts/media"
    assert api.get(address).json() == {"items": [], "next_cursor": None}
    for path in ("val/samples/0000000002.png", "val/samples/0000000010.png", "worst/run.table.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"content")
    (folder / "val/samples/0000000010.txt").write_text("<b>two</b>")
    (folder / "worst/0000000001.table.json").symlink_to(folder / "worst/run.table.json")
    [[samples], [worst]] = pages_of(api, address, limit=1)
    assert (samples["name"], samples["kind"]) == ("val/samples", "image")
    assert [(step["step"], step["bytes"], step["caption_path"]) for step in samples["steps"]] == [
        (2, 7, None),
        (10, 7, "media/val/samples/0000000010.txt"),
    ]
    assert (worst["name"], worst["kind"], [step["step"] for step in worst["steps"]]) == ("worst", "table", [None])
    for step in samples["steps"]:
        assert api.get(path_of(job_id, step["path"])).content == b"content"
    again = {"If-None-Match": api.get(address).headers["ETag"]}
    assert api.get(address, headers=again).status_code == 304
    (folder / "worst/0000000003.table.json").write_text("{}")
    assert api.get(address, headers=again).status_code == 200
