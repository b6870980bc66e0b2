"""What a job kept by step, over HTTP."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.integration.api.artifacts.conftest import path_of


@pytest.fixture
def media(runs: Path, job_id: str) -> Path:
    """The folder of a job's media, with a picture at two steps and a table."""
    folder = runs / job_id / "artifacts/media"
    for path in ("val/samples/0000000002.png", "val/samples/0000000010.png", "worst/run.table.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"content")
    (folder / "val/samples/0000000010.txt").write_text("<b>two</b>")
    return folder


def test_the_list_says_names_kinds_and_steps(api: TestClient, job_id: str, media: Path) -> None:
    (media / "worst/0000000001.table.json").symlink_to(media / "worst/run.table.json")
    first = api.get(f"/v1/jobs/{job_id}/media", params={"limit": 1}).json()
    [samples] = first["items"]
    assert (samples["name"], samples["kind"]) == ("val/samples", "image")
    assert [(step["step"], step["bytes"], step["caption_path"]) for step in samples["steps"]] == [
        (2, 7, None),
        (10, 7, "media/val/samples/0000000010.txt"),
    ]
    second = api.get(f"/v1/jobs/{job_id}/media", params={"cursor": first["next_cursor"]}).json()
    assert second["next_cursor"] is None
    assert [(item["name"], item["kind"], [step["step"] for step in item["steps"]]) for item in second["items"]] == [
        ("worst", "table", [None])
    ]
    for step in samples["steps"]:
        assert api.get(path_of(job_id, step["path"])).content == b"content"


def test_an_unchanged_list_is_not_sent_again(api: TestClient, job_id: str, media: Path) -> None:
    address = f"/v1/jobs/{job_id}/media"
    again = {"If-None-Match": api.get(address).headers["ETag"]}
    assert api.get(address, headers=again).status_code == 304
    (media / "worst/0000000003.table.json").write_text("{}")
    assert api.get(address, headers=again).status_code == 200


def test_a_job_without_media_has_an_empty_list(api: TestClient, job_id: str) -> None:
    assert api.get(f"/v1/jobs/{job_id}/media").json() == {"items": [], "next_cursor": None}
