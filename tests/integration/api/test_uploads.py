"""Uploads over HTTP: their pieces, on disk and in the store, failures between pieces, and who may send them."""

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.files import upload_files
from api.files.stored_uploads import STORED_CHUNK_BYTES
from api.files.upload_files import UploadFile
from api.middleware import CHUNK_BYTES
from jobs.copies.store import store_of
from jobs.data import uploads
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.code import OCTETS
from tests.full_disks import fill_up, make_read_only, small_disk, use_up_files
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import TOKEN
from tests.integration.api.uploading import ARCHIVE, put_messages, put_piece, received_bytes, start, stored

in_both_places = pytest.mark.parametrize("place", ["disk", "store"])


@pytest.fixture
def place() -> str:
    """Where the bytes of uploads go."""
    return "disk"


@pytest.fixture
def configuration(database: str, tmp_path: Path, place: str) -> Settings:
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, max_upload_gb=0.5,
        max_open_uploads=3, store=f"file://{tmp_path}/store" if place == "store" else None,
    )  # fmt: skip


def on_disk(configuration: Settings, upload_id: str) -> Path:
    return configuration.datasets / uploads.FOLDER / upload_id


@pytest.fixture
def kept(configuration: Settings, sessions: Sessions) -> Callable[[str], bytes]:
    """The bytes of an upload, which lie in the place alone."""
    store = store_of(configuration)

    def kept(upload_id: str) -> bytes:
        if store is None:
            return on_disk(configuration, upload_id).read_bytes()
        assert not (configuration.datasets / uploads.FOLDER).exists()
        return stored(sessions, store, upload_id)

    return kept


@in_both_places
def test_pieces_add_up_to_the_whole_archive_whatever_is_sent_twice_elsewhere_or_too_long(
    api: TestClient, place: str, kept: Callable[[str], bytes]
) -> None:
    upload_id = start(api, sha256=hashlib.sha256(ARCHIVE).hexdigest())
    assert put_piece(api, upload_id, 0, b"").json()["received_bytes"] == 0
    assert put_piece(api, upload_id, 0, ARCHIVE[:100]).json()["received_bytes"] == 100
    for piece in (ARCHIVE[:100], b"x" * 50):  # a repeat changes nothing
        again = put_piece(api, upload_id, 0, piece)
        assert (again.status_code, again.json()["received_bytes"]) == (200, 100)
    for offset, size in ((50, 100), (101, 10), (2**40, 1)):
        wrong = problem(put_piece(api, upload_id, offset, b"x" * size), 409, "wrong-offset")
        assert wrong["detail"] == f"the next piece starts at 100, this one at {offset}"
    too_long = bytes(len(ARCHIVE) - 99)
    for body in (too_long, iter([too_long[:9], too_long[9:]])):
        message = f"this piece ends after the size_bytes of the upload: {len(ARCHIVE)}"
        assert errors_of(put_piece(api, upload_id, 100, body)) == {"": message}
    assert api.put(f"/v1/uploads/{upload_id}/content", params={"offset": 100}, json={}).status_code == 415
    before = api.get(f"/v1/uploads/{upload_id}").json()
    assert (before["received_bytes"], before["completed_at"]) == (100, None)
    assert kept(upload_id) == ARCHIVE[:100]
    last = put_piece(api, upload_id, 100, ARCHIVE[100:])
    chunk_bytes = {"disk": CHUNK_BYTES, "store": STORED_CHUNK_BYTES}[place]
    assert (last.status_code, last.json()["received_bytes"], last.json()["chunk_bytes"]) == (
        200, len(ARCHIVE), chunk_bytes,
    )  # fmt: skip
    assert last.json()["completed_at"] is not None
    assert kept(upload_id) == ARCHIVE


@in_both_places
def test_a_body_that_comes_slowly_is_put_together_and_an_interrupted_one_can_be_sent_again(
    api: TestClient, app: FastAPI, kept: Callable[[str], bytes]
) -> None:
    content = os.urandom(5_000_000)
    upload_id = start(api, content)
    came: list[dict[str, Any]] = [
        {"type": "http.request", "body": content[at : at + 700_000], "more_body": at + 700_000 < len(content)}
        for at in range(0, len(content), 700_000)
    ]
    assert put_messages(api, app, upload_id, [*came[:3], {"type": "http.disconnect"}]) == 400
    assert received_bytes(api, upload_id) == 0
    assert put_messages(api, app, upload_id, came) == 200
    assert kept(upload_id) == content


@pytest.mark.parametrize(("place", "purpose"), [("disk", "data"), ("disk", "run"), ("store", "data")])
def test_a_removed_upload_is_gone(api: TestClient, configuration: Settings, purpose: str) -> None:
    upload_id = start(api, purpose=purpose)
    put_piece(api, upload_id, 0, ARCHIVE[:100])
    for _ in range(2):
        assert api.delete(f"/v1/uploads/{upload_id}").status_code == 204
    assert api.get(f"/v1/uploads/{upload_id}").json()["removed_at"] is not None
    assert upload_id not in [upload["id"] for upload in api.get("/v1/uploads").json()["items"]]
    for offset, piece in ((0, ARCHIVE[:100]), (100, ARCHIVE[100:])):
        assert not on_disk(configuration, upload_id).exists()
        problem(put_piece(api, upload_id, offset, piece), 410, "upload-gone")
    assert not on_disk(configuration, upload_id).exists()
    assert (
        "bytes are gone" in errors_of(api.post("/v1/datasets", json={"name": "chips", "upload": upload_id}))["upload"]
    )


def test_a_piece_has_a_larger_size_limit_than_other_bodies(api: TestClient) -> None:
    """The largest pieces are stored in `serving/test_requests.py`."""
    upload_id = start(api, bytes(2 * CHUNK_BYTES))
    assert put_piece(api, upload_id, 0, bytes(CHUNK_BYTES + 1)).status_code == 413
    assert api.put(f"/v1/uploads/{upload_id}/content/x", content=bytes(2**21), headers=OCTETS).status_code == 413


def test_a_wrong_field_is_named(api: TestClient) -> None:
    for field, value in (
        ("filename", "../x"), ("filename", "a\x00"), ("filename", ""), ("size_bytes", 0), ("size_bytes", 501_000_000),
        ("sha256", "x"), ("more", 1),
    ):  # fmt: skip
        answer = api.post("/v1/uploads", json={"filename": "a.zip", "size_bytes": 10} | {field: value})
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_the_open_uploads_of_a_user_are_limited(api: TestClient, client_of: Callable[..., TestClient]) -> None:
    ids = [start(api) for _ in range(3)]
    assert api.post("/v1/uploads", json={"filename": "a", "size_bytes": 1}).status_code == 409
    start(client_of("ada"))
    assert sorted(one["id"] for one in api.get("/v1/uploads").json()["items"]) == sorted(ids)
    assert api.delete(f"/v1/uploads/{ids[0]}").status_code == 204
    start(api)


def test_an_upload_has_one_writer_who_follows_no_link(api: TestClient, configuration: Settings, tmp_path: Path) -> None:
    upload_id = start(api)
    with UploadFile(configuration.datasets, upload_id):
        problem(put_piece(api, upload_id, 0, ARCHIVE), 409, "upload-busy")
    (tmp_path / "precious").write_bytes(b"as it was")
    on_disk(configuration, "5r0x").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        UploadFile(configuration.datasets, "5r0x")
    assert (tmp_path / "precious").read_bytes() == b"as it was"


def test_pieces_are_refused_below_the_floor_and_the_upload_goes_on_later(
    api: TestClient, configuration: Settings
) -> None:
    with small_disk(configuration.datasets) as disk:
        upload_id = start(api)
        assert put_piece(api, upload_id, 0, ARCHIVE[:10]).json()["received_bytes"] == 10
        fill = fill_up(disk, but_bytes=500_000)  # less than a twentieth of the disk
        refused = put_piece(api, upload_id, 10, ARCHIVE[10:])
        assert (refused.status_code, refused.json()["type"]) == (507, "urn:hora:problem:disk-full")
        assert refused.json()["detail"].startswith("datasets has 0.5 MB free, less than 0.8 MB; nothing is lost")
        new = api.post("/v1/uploads", json={"filename": "a.zip", "size_bytes": 100})
        assert new.status_code == 507
        fill.unlink()
        assert put_piece(api, upload_id, 10, ARCHIVE[10:]).json()["completed_at"] is not None
        assert on_disk(configuration, upload_id).read_bytes() == ARCHIVE
        too_large = api.post("/v1/uploads", json={"filename": "a.zip", "size_bytes": 16 * 2**20})
        assert (too_large.status_code, "must stay free" in too_large.json()["detail"]) == (507, True)


def test_a_piece_that_the_disk_does_not_take_leaves_no_part_and_can_be_sent_again(
    api: TestClient, configuration: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = start(api)
    put_piece(api, upload_id, 0, ARCHIVE[:10])
    really_written = os.pwrite

    def nearly_full(file: int, piece: bytes, offset: int) -> int:
        if offset > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_written(file, piece[:5], offset)

    def read_only(*_: object) -> int:  # as the system makes a disk after an error, while a request writes
        raise OSError(errno.EROFS, "Read-only file system")

    for writes in ({"pwrite": nearly_full}, {"pwrite": read_only, "ftruncate": read_only}):
        with monkeypatch.context() as patched:
            for name, write in writes.items():
                patched.setattr(upload_files.os, name, write)
            answer = put_piece(api, upload_id, 10, ARCHIVE[10:])
        assert (answer.status_code, answer.json()["title"]) == (507, "The disk is full")
        assert on_disk(configuration, upload_id).stat().st_size == 10
    assert put_piece(api, upload_id, 10, ARCHIVE[10:]).json()["completed_at"] is not None
    assert on_disk(configuration, upload_id).read_bytes() == ARCHIVE


def test_an_upload_on_a_read_only_disk_can_be_removed(api: TestClient, configuration: Settings) -> None:
    with small_disk(configuration.datasets) as disk:
        upload_id = start(api)
        put_piece(api, upload_id, 0, ARCHIVE)
        make_read_only(disk)
        assert api.delete(f"/v1/uploads/{upload_id}").status_code == 204
        assert api.get(f"/v1/uploads/{upload_id}").json()["removed_at"] is not None


def test_no_upload_can_start_on_a_disk_without_a_free_file(api: TestClient, configuration: Settings) -> None:
    with small_disk(configuration.datasets, files=50) as disk:
        upload_id = start(api)
        use_up_files(disk)
        assert put_piece(api, upload_id, 0, ARCHIVE).status_code == 507


def test_an_impossible_id_is_not_found(api: TestClient) -> None:
    for upload_id in ("..%2f..%2fetc", "%2e%2e", "A", "x" * 33):
        assert api.get(f"/v1/uploads/{upload_id}").status_code == 404
        assert put_piece(api, upload_id, 0, b"x").status_code == 404


def test_a_complete_upload_becomes_a_dataset_only_once(api: TestClient, sessions: Sessions) -> None:
    upload_id = start(api)
    body = {"name": "chips", "upload": upload_id}
    put_piece(api, upload_id, 0, ARCHIVE[:10])
    unfinished = api.post("/v1/datasets", json=body)
    assert "10 of" in unfinished.json()["errors"][0]["message"]
    put_piece(api, upload_id, 10, ARCHIVE[10:])
    made = api.post("/v1/datasets", json=body)
    assert (made.status_code, made.json()["source"], made.json()["upload_id"]) == (201, "chips/1", upload_id)
    again = api.post("/v1/datasets", json=body)
    assert "is chips@1" in again.json()["errors"][0]["message"]
    assert api.delete(f"/v1/uploads/{upload_id}").status_code == 409
