"""Artifacts of other hosts come from the store, with the headers and ranges of those on disk."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from api.main import app_for
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.answers import pages_of, problem
from tests.integration.api.artifacts.conftest import path_of
from tests.integration.api.artifacts.test_artifacts import TRAVERSALS, raw_request
from tests.integration.api.copies.stored import note_checkpoint, put_artifacts, put_checkpoint
from tests.integration.api.starting_rows import TOKEN, an_attempt
from tests.servers import serving

CHUNK = 1024 * 1024  # of the store
NETWORK = bytes(range(251)) * 10_000  # two chunks and a part of a third one; no two chunks are equal
FILES = {"model.keras": NETWORK, "größe \"%'.html": b"<script>", "tensorboard/train/events": b"events", "empty": b""}


@pytest.fixture
def copied(store: Store, job_id: str) -> str:
    put_artifacts(store, job_id, FILES)
    return job_id


def test_the_list_comes_from_the_store_and_its_tag_changes_with_a_file(
    api: TestClient, store: Store, copied: str
) -> None:
    whole = api.get(path_of(copied))
    items = [item for page in pages_of(api, path_of(copied), limit=3) for item in page]
    assert [(item["path"], item["bytes"], item["media_type"]) for item in items] == [
        ("empty", 0, "application/octet-stream"),
        ("größe \"%'.html", 8, "text/html"),
        ("model.keras", len(NETWORK), "application/octet-stream"),
        ("tensorboard/train/events", 6, "application/octet-stream"),
    ]
    assert items[0]["modified_at"] == "2030-01-01T12:00:00Z"
    again = {"If-None-Match": whole.headers["ETag"]}
    assert api.get(path_of(copied), headers=again).status_code == 304
    put_artifacts(store, copied, FILES | {"tensorboard/train/events": b"EVENTS"})
    assert api.get(path_of(copied), headers=again).status_code == 200


def test_a_file_is_sent_whole_with_its_headers_and_all_of_them_as_an_archive(api: TestClient, copied: str) -> None:
    answer = api.get(path_of(copied, "model.keras"), headers={"Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.content) == (200, NETWORK)
    expected = {
        "Content-Length": str(len(NETWORK)), "ETag": f'"sha256-{hashlib.sha256(NETWORK).hexdigest()}"',
        "Last-Modified": "Tue, 01 Jan 2030 12:00:00 GMT", "Content-Disposition": 'attachment; filename="model.keras"',
    }  # fmt: skip
    assert {name: answer.headers[name] for name in expected} == expected
    head = api.head(path_of(copied, "model.keras"))
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head.headers[name] for name in expected} == expected
    empty = api.get(path_of(copied, "empty"))
    assert (empty.status_code, empty.content, empty.headers["Content-Length"]) == (200, b"", "0")
    whole = api.get(f"{path_of(copied)}.tar")
    assert whole.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(whole.content)) as archive:
        contents = {file.name.partition("/")[2]: archive.extractfile(file) for file in archive}
        assert {path: file and file.read() for path, file in contents.items()} == FILES


def test_a_range_gets_these_bytes_across_the_chunks_of_the_store(api: TestClient, store: Store, copied: str) -> None:
    path = path_of(copied, "model.keras")
    for byte_range, part in (
        ("bytes=0-0", slice(0, 1)),
        (f"bytes={CHUNK - 1}-{CHUNK}", slice(CHUNK - 1, CHUNK + 1)),
        (f"bytes={CHUNK}-{2 * CHUNK - 1}", slice(CHUNK, 2 * CHUNK)),
        ("bytes=5-", slice(5, None)),
        (f"bytes=-{CHUNK + 7}", slice(-CHUNK - 7, None)),
    ):
        answer = api.get(path, headers={"Range": byte_range})
        start, stop, _ = part.indices(len(NETWORK))
        there = f"bytes {start}-{stop - 1}/{len(NETWORK)}"
        assert (answer.status_code, answer.headers["Content-Range"]) == (206, there)
        assert answer.content == NETWORK[part]
    tag = api.head(path).headers["ETag"]
    assert api.get(path, headers={"If-None-Match": tag}).status_code == 304
    put_artifacts(store, copied, {"model.keras": NETWORK[::-1]})
    for if_range, status in ((tag, 200), (api.head(path).headers["ETag"], 206)):
        answer = api.get(path, headers={"Range": "bytes=0-9", "If-Range": if_range})
        assert (answer.status_code, answer.content[:10]) == (status, NETWORK[:-11:-1])


def test_the_newest_attempt_counts_and_the_disk_of_the_lead_host_is_newer_than_the_store(
    api: TestClient, store: Store, sessions: Sessions, copied: str, configuration: Settings
) -> None:
    folder = configuration.runs_dir / copied / "artifacts"
    folder.mkdir(parents=True)
    (folder / "model.keras").write_bytes(b"of this disk")
    assert api.get(path_of(copied, "model.keras")).content == NETWORK, "another host is the lead"
    put_artifacts(store, copied, {"model.keras": b"newer"}, attempt=2)
    assert api.get(path_of(copied, "model.keras")).content == b"newer"
    assert api.get(path_of(copied, "empty")).status_code == 404
    an_attempt(sessions, copied, 3, host="here")
    assert api.get(path_of(copied, "model.keras")).content == b"of this disk"
    assert [item["path"] for item in api.get(path_of(copied)).json()["items"]] == ["model.keras"]
    assert api.head(path_of(copied, "model.keras")).headers["Content-Length"] == "12"
    shutil.rmtree(folder)  # a disk was replaced: then the copies are what is left
    assert api.get(path_of(copied, "model.keras")).content == b"newer"
    assert [item["path"] for item in api.get(path_of(copied)).json()["items"]] == ["model.keras"]


def test_without_copies_a_shared_folder_is_read(api: TestClient, job_id: str, store: Store, tmp_path: Path) -> None:
    missing = problem(api.get(path_of(job_id)), 409, "artifacts-elsewhere")
    assert "on host ha" in missing["detail"]
    assert "not in the store yet" in missing["detail"]
    assert api.get(path_of(job_id, "model.keras")).status_code == 409
    folder = tmp_path / "home/runs" / job_id / "artifacts"
    folder.mkdir(parents=True)
    (folder / "model.keras").write_bytes(b"shared")
    assert api.get(path_of(job_id, "model.keras")).content == b"shared"


def test_a_file_that_the_store_lost_in_whole_or_in_part_is_named(api: TestClient, store: Store, job_id: str) -> None:
    manifest = put_artifacts(store, job_id, FILES)
    (key,) = (file.key for file in manifest.files if file.path == "model.keras")
    store.write(key, NETWORK[:10])
    shorter = api.get(path_of(job_id, "model.keras"), headers={"Range": "bytes=10-"})
    store.remove([key])
    for lost in (shorter, api.get(path_of(job_id, "model.keras"))):
        assert (lost.status_code, lost.json()["type"]) == (404, "urn:hora:problem:copy-lost")
    assert api.get(path_of(job_id, "tensorboard/train/events")).content == b"events"


def test_a_file_that_is_replaced_after_the_manifest_was_read_is_sent_anew(
    api: TestClient, store: Store, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = put_artifacts(store, job_id, {"model.keras": b"old"})
    chunks = Store.chunks

    def replace_first(self: Store, key: str, part: range) -> object:
        if key == old.files[0].key:
            put_artifacts(store, job_id, {"model.keras": b"newer"})
            store.remove([key])
        return chunks(self, key, part)

    monkeypatch.setattr(Store, "chunks", replace_first)
    answer = api.get(path_of(job_id, "model.keras"))
    assert (answer.status_code, answer.content) == (200, b"newer")


def test_no_path_leads_elsewhere(
    store: Store, sessions: Sessions, copied: str, configuration: Settings, tmp_path: Path
) -> None:
    note_checkpoint(sessions, copied, 20)
    put_checkpoint(store, copied, 20, FILES)
    for folder in ("store", "store/jobs"):
        (tmp_path / folder / "secret.txt").write_text("TOP SECRET")
    more = [b"../manifests/artifacts-1.json", b"../../../manifests/checkpoint-1-0000000020.json", b"..", b"%00"]
    above = [f"/v1/jobs/{copied}/{folder}/".encode() for folder in ("artifacts", "checkpoints/1/20")]
    paths = [folder + path for folder in above for path in [*TRAVERSALS, *more, b"../../../secret.txt"]]
    with serving(app_for(configuration), configuration) as port:
        answers = {path: raw_request(port, path) for path in paths}
    assert [path for path, (status, _) in answers.items() if status not in (400, 404, 422)] == []
    assert [path for path, (_, body) in answers.items() if b"TOP SECRET" in body or b"root:" in body] == []


def test_a_manifest_that_names_files_of_others_is_not_believed(api: TestClient, store: Store, job_id: str) -> None:
    manifest = put_artifacts(store, job_id, {"x": b"x"})
    store.write("secret.txt", b"TOP SECRET")
    key = f"jobs/{job_id}/manifests/artifacts-1.json"
    for other in ("secret.txt", f"jobs/{job_id}/../../secret.txt", "/etc/passwd"):
        store.write(key, manifest.model_dump_json().replace(manifest.files[0].key, other).encode())
        problem(api.get(path_of(job_id, "x")), 409, "artifacts-elsewhere")


def test_an_answer_that_breaks_off_does_not_look_whole(store: Store, job_id: str, configuration: Settings) -> None:
    manifest = put_artifacts(store, job_id, {"large": bytes(64 * CHUNK)})
    with (
        serving(app_for(configuration), configuration) as port,
        httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as client,
        client.stream("GET", f"http://127.0.0.1:{port}{path_of(job_id, 'large')}") as answer,
    ):
        assert answer.status_code == 200
        store.remove([manifest.files[0].key])
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in answer.iter_raw():
                pass


def test_a_store_that_cannot_sign_sends_the_file_itself(
    api: TestClient, copied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, params = path_of(copied, "model.keras"), {"redirect": "true"}
    assert api.get(path, params=params).content == NETWORK
    assert api.get(path, params=params, headers={"Range": "bytes=1-2"}).content == NETWORK[1:3]

    def refuses(self: Store, key: str, **_: object) -> str:
        raise StoreAway("you need a private key to sign")

    monkeypatch.setattr(Store, "signed_url", refuses)
    assert api.get(path, params=params).content == NETWORK
