"""Artifacts over HTTP, partly on a real server, because clients normalize paths before they send them."""

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from api.main import app_for
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.answers import pages_of, problem
from tests.integration.api.artifacts.conftest import NETWORK, path_of
from tests.integration.api.serving.raw_requests import AUTHORIZATION, HOST
from tests.integration.api.starting_rows import TOKEN, an_attempt
from tests.raw_http import RawConnection
from tests.servers import serving
from tests.waiting import until


def test_the_list_goes_page_by_page_and_its_tag_changes_with_a_file(api: TestClient, job_id: str, runs: Path) -> None:
    whole = api.get(path_of(job_id))
    items = whole.json()["items"]
    assert pages_of(api, path_of(job_id), limit=2) == [items[:2], items[2:]]
    assert [(item["path"], item["bytes"], item["media_type"]) for item in items] == [
        ("classes.json", 2010, "application/json"),
        ("größe%.html", 8, "text/html"),
        ("model.keras", len(NETWORK), "application/octet-stream"),
        ("tensorboard/train/events.out.tfevents.1", 6, "application/octet-stream"),
    ]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", items[0]["modified_at"])
    again = {"If-None-Match": whole.headers["ETag"]}
    assert api.get(path_of(job_id), headers=again).status_code == 304
    with (runs / job_id / "artifacts/tensorboard/train/events.out.tfevents.1").open("ab") as events:
        events.write(b"more")
    changed = api.get(path_of(job_id), headers=again)
    assert changed.status_code == 200
    assert changed.headers["ETag"] != whole.headers["ETag"]
    assert api.get(path_of(job_id), params={"limit": 1}).headers["ETag"] != changed.headers["ETag"]


def test_a_file_is_sent_whole_once_with_its_headers(api: TestClient, job_id: str, runs: Path) -> None:
    path = path_of(job_id, "model.keras")
    answer = api.get(path, headers={"Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.content) == (200, NETWORK)
    expected = {
        "Content-Length": str(len(NETWORK)), "Content-Disposition": 'attachment; filename="model.keras"',
        "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes", "Cache-Control": "private, no-cache",
        "Content-Type": "application/octet-stream",
    }  # fmt: skip
    assert {name: answer.headers[name] for name in expected} == expected
    modified_at = int((runs / job_id / "artifacts/model.keras").stat().st_mtime)
    assert parsedate_to_datetime(answer.headers["Last-Modified"]).timestamp() == modified_at
    head = api.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert [head.headers[name] for name in (*expected, "ETag", "Last-Modified")] == [
        answer.headers[name] for name in (*expected, "ETag", "Last-Modified")
    ]
    tag = answer.headers["ETag"]
    assert tag.startswith('"')
    again = api.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)

    page = api.get(path_of(job_id, "größe%25.html"))
    assert page.text == "<script>"
    assert "sandbox" in page.headers["Content-Security-Policy"]
    assert page.headers["Content-Disposition"].startswith("attachment;")
    text = api.get(path_of(job_id, "classes.json"), headers={"Accept-Encoding": "gzip"})
    assert text.headers.get("Content-Encoding", "identity") == "identity"
    assert text.headers["Content-Length"] == "2010"


def test_some_files_or_all_are_sent_as_an_archive(api: TestClient, job_id: str, runs: Path) -> None:
    whole = api.get(f"{path_of(job_id)}.tar", headers={"Accept-Encoding": "gzip"})
    assert (whole.status_code, whole.headers["Content-Type"]) == (200, "application/octet-stream")
    assert whole.headers["Content-Disposition"] == f'attachment; filename="{job_id}.tar"'
    listed = api.get(path_of(job_id)).json()["items"]
    with tarfile.open(fileobj=io.BytesIO(whole.content)) as archive:
        assert archive.getnames() == [f"{job_id}/{file['path']}" for file in listed]
        assert [member.size for member in archive] == [file["bytes"] for file in listed]
        assert all(member.isreg() and member.mode == 0o644 for member in archive)
        network = archive.extractfile(f"{job_id}/model.keras")
        assert network is not None
        assert network.read() == NETWORK
    some = api.get(f"{path_of(job_id)}.tar", params={"path": ["model.keras", "größe%.html", "model.keras"]})
    with tarfile.open(fileobj=io.BytesIO(some.content)) as archive:
        assert archive.getnames() == [f"{job_id}/größe%.html", f"{job_id}/model.keras"]
    for wrong in ("../../secret.txt", "/etc/passwd", "tensorboard", "model.kera"):
        assert api.get(f"{path_of(job_id)}.tar", params={"path": ["model.keras", wrong]}).status_code == 404


def test_an_archive_never_looks_whole_without_a_file_that_goes_or_shrinks(
    configuration: Settings, sessions: Sessions, job_id: str, runs: Path
) -> None:
    """The disk is changed while the first file, larger than all buffers on its way, is being sent."""
    folder = runs / job_id / "artifacts"
    changes = ((folder / "model.keras").unlink, lambda: os.truncate(folder / "a.bin", 1000))
    client = httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"})
    with serving(app_for(configuration), configuration) as port, client:
        for change in changes:
            (folder / "a.bin").touch()
            os.truncate(folder / "a.bin", 64 * 1024 * 1024)
            with client.stream("GET", f"http://127.0.0.1:{port}{path_of(job_id)}.tar") as answer:
                chunks = answer.iter_raw()
                next(chunks)
                change()
                with pytest.raises(httpx.RemoteProtocolError):
                    sum(map(len, chunks))


def test_a_range_request_gets_only_that_range_and_leaves_nothing_open(api: TestClient, job_id: str) -> None:
    def get_range(byte_range: str, **headers: str) -> tuple[int, bytes, str | None]:
        answer = api.get(path_of(job_id, "model.keras"), headers={"Range": byte_range, **headers})
        return answer.status_code, answer.content, answer.headers.get("Content-Range")

    size = len(NETWORK)
    assert get_range("bytes=0-9") == (206, NETWORK[:10], f"bytes 0-9/{size}")
    assert get_range("bytes=300000-") == (206, NETWORK[300000:], f"bytes 300000-{size - 1}/{size}")
    assert get_range("bytes=-5") == (206, NETWORK[-5:], f"bytes {size - 5}-{size - 1}/{size}")
    assert get_range("bytes=0-1,5-6") == (200, NETWORK, None)
    tag = api.get(path_of(job_id, "model.keras")).headers["ETag"]
    assert get_range("bytes=0-9", **{"If-Range": tag})[0] == 206
    for other in ('"another"', f"W/{tag}", "Tue, 01 Jan 2030 12:01:00 GMT"):
        assert get_range("bytes=0-9", **{"If-Range": other}) == (200, NETWORK, None)
    answer = api.get(path_of(job_id, "model.keras"), headers={"Range": f"bytes={size}-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{size}")
    assert answer.json()["type"] == "urn:hora:problem:range-not-satisfiable"

    def open_descriptors() -> list[str]:
        links = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
        return [link for link in links if "/artifacts" in link]

    until(lambda: not open_descriptors(), what="all files closed")


@pytest.fixture
def server(configuration: Settings) -> Iterator[int]:
    """Another process of the api, as it were: a server on a port of loopback, in a thread."""
    with serving(app_for(configuration), configuration) as port:
        yield port


def raw_request(port: int, target: bytes) -> tuple[int, bytes]:
    """The status and the body of an answer to exactly this target."""
    with RawConnection(port) as connection:
        connection.send(b"GET " + target + b" HTTP/1.1\r\n" + HOST + AUTHORIZATION + b"\r\n")
        answer = connection.answer()
    return answer.status, answer.body


TRAVERSALS = [
    b"../checkpoints/epoch-1.h5", b"%2e%2e/%2e%2e/secret.txt", b"..%2f..%2fsecret.txt",
    b"%252e%252e%252f%252e%252e%252fsecret.txt", b"..%c0%af..%c0%afsecret.txt", b"..%5c..%5csecret.txt",
    b"....//....//secret.txt", b"tensorboard/..%2f..%2fcheckpoints/epoch-1.h5", b"%2e/model.keras", b"%2fetc%2fpasswd",
    b"//etc/passwd", b"model.keras/", b"model.keras%00.txt", b"model%0a.keras", b"link.txt", b"tensorboard", b"%2e%2e",
    b"%ff%fe", b"x" * 3000,
]  # fmt: skip


def test_no_path_leads_out_of_the_folder(server: int, job_id: str) -> None:
    answers = {path: raw_request(server, f"/v1/jobs/{job_id}/artifacts/".encode() + path) for path in TRAVERSALS}
    assert [path for path, (status, _) in answers.items() if status not in (400, 404, 422)] == []
    assert [path for path, (_, body) in answers.items() if b"TOP SECRET" in body or b"root:" in body] == []


def test_a_real_server_sends_a_file_whole_and_in_ranges(server: int, job_id: str, runs: Path) -> None:
    assert raw_request(server, path_of(job_id, "model.keras").encode()) == (200, NETWORK)
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        url = f"http://127.0.0.1:{server}{path_of(job_id, 'model.keras')}"
        assert client.get(url, headers={"Range": "bytes=5-"}).content == NETWORK[5:]
        assert client.head(url).headers["Content-Length"] == str(len(NETWORK))
        with client.stream("GET", url) as answer:  # it grows in the middle, and then another file takes its name
            pieces = answer.iter_raw(1000)
            first = next(pieces)
            folder = runs / job_id / "artifacts"
            with (folder / "model.keras").open("ab") as file:
                file.write(b"more")
            (folder / "new").write_bytes(b"x" * (len(NETWORK) + 5))
            os.replace(folder / "new", folder / "model.keras")
            assert first + b"".join(pieces) == NETWORK


def test_artifacts_that_are_not_there_or_on_another_host_are_reported(
    api: TestClient, submit_job: Callable[..., str], sessions: Sessions
) -> None:
    here, elsewhere = submit_job(), submit_job()
    for number in (1, 2):  # it never ran; then it ran on the host of the api, and left nothing
        assert api.get(path_of(here)).json() == {"items": [], "next_cursor": None}
        assert api.get(path_of(here, "model.keras")).status_code == 404
        an_attempt(sessions, here, number, host="here")
    for path in (path_of("nosuchjob"), path_of("nosuchjob", "x")):
        problem(api.get(path), 404, "job-not-found")
    an_attempt(sessions, elsewhere, host="ha")
    for path in (path_of(elsewhere), path_of(elsewhere, "model.keras")):
        refused = problem(api.get(path), 409, "artifacts-elsewhere")
        assert "host ha" in refused["detail"]


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
