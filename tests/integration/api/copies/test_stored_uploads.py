"""Uploads whose pieces are in the store: sent, sent twice, interrupted, damaged, and read as code."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from api.files import stored_uploads
from api.files.stored_uploads import STORED_CHUNK_BYTES
from api.main import app_for
from jobs.copies.store import Store, store_of
from jobs.data import pieces_in_store, upload_pieces, uploads
from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, Upload
from jobs.runtime.settings import Settings
from tests.archives import chips, zip_of
from tests.code import archive_of, send_code, upload_code
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import TOKEN
from tests.s3 import s3_server

OCTETS = {"Content-Type": "application/octet-stream"}
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
ARCHIVE = zip_of(chips(2))


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path / "home", host_name="here",
        store=f"file://{tmp_path}/store", code="on", max_code_mb=4,
    )  # fmt: skip


def start(api: TestClient, content: bytes = ARCHIVE, **fields: Any) -> str:
    answer = api.post("/v1/uploads", json={"filename": "chips.zip", "size_bytes": len(content)} | fields)
    assert answer.status_code == 201, answer.text
    upload_id: str = answer.json()["id"]
    return upload_id


def put_piece(api: TestClient, upload_id: str, offset: int, piece: Any) -> Any:
    return api.put(f"/v1/uploads/{upload_id}/content", params={"offset": offset}, content=piece, headers=OCTETS)


def put_messages(api: TestClient, app: FastAPI, upload_id: str, came: list[dict[str, Any]]) -> int:
    """The status of the answer to a first piece whose body comes in these messages of the server."""
    messages, answered = iter(came), []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {
        "type": "http", "method": "PUT", "path": f"/v1/uploads/{upload_id}/content", "query_string": b"offset=0",
        "headers": [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/octet-stream")],
    }  # fmt: skip
    assert api.portal is not None
    api.portal.call(app, scope, receive, send)
    status: int = answered[0]["status"]
    return status


def received_bytes(api: TestClient, upload_id: str) -> int:
    received: int = api.get(f"/v1/uploads/{upload_id}").json()["received_bytes"]
    return received


def stored(sessions: Sessions, store: Store, upload_id: str) -> bytes:
    """The bytes that workers get."""
    with sessions() as session:
        pieces = upload_pieces.pieces_of(session, upload_id)
    file = os.memfd_create("upload")
    try:
        pieces_in_store.bring(store, pieces, file)
        return os.pread(file, 2 * STORED_CHUNK_BYTES, 0)
    finally:
        os.close(file)


def files_of(store: Store, upload_id: str) -> list[str]:
    return [file.key for file in store.files(f"uploads/{upload_id}")]


@contextmanager
def without_store(configuration: Settings) -> Iterator[TestClient]:
    """The same stack when HORA_STORE is not set."""
    app = app_for(configuration.model_copy(update={"store": None}))
    with TestClient(app, raise_server_exceptions=False, headers=HEADERS) as client:
        yield client


def test_pieces_in_the_store_add_up_to_the_whole_archive(
    api: TestClient, configuration: Settings, sessions: Sessions, store: Store
) -> None:
    archive = bytes(range(256)) * (STORED_CHUNK_BYTES // 256) + ARCHIVE
    upload_id = start(api, archive, sha256=hashlib.sha256(archive).hexdigest())
    first = put_piece(api, upload_id, 0, archive[:STORED_CHUNK_BYTES])
    assert (first.status_code, first.json()["completed_at"]) == (200, None)
    assert first.json()["chunk_bytes"] == STORED_CHUNK_BYTES
    last = put_piece(api, upload_id, STORED_CHUNK_BYTES, archive[STORED_CHUNK_BYTES:])
    assert (last.status_code, last.json()["received_bytes"]) == (200, len(archive))
    assert last.json()["completed_at"] is not None
    assert stored(sessions, store, upload_id) == archive
    assert len(files_of(store, upload_id)) == 2
    assert not (configuration.datasets / uploads.FOLDER).exists()


def test_a_piece_that_is_repeated_empty_too_long_or_at_a_wrong_offset_changes_nothing(
    api: TestClient, sessions: Sessions, store: Store
) -> None:
    upload_id = start(api)
    assert put_piece(api, upload_id, 0, b"").json()["received_bytes"] == 0
    assert files_of(store, upload_id) == []
    put_piece(api, upload_id, 0, ARCHIVE[:100])
    for piece in (ARCHIVE[:100], b"x" * 50):
        again = put_piece(api, upload_id, 0, piece)
        assert (again.status_code, again.json()["received_bytes"]) == (200, 100)
    for offset, size in ((50, 100), (101, 10), (2**40, 1)):
        answer = put_piece(api, upload_id, offset, b"x" * size)
        detail = f"the next piece starts at 100, this one at {offset}"
        assert problem(answer, 409, "wrong-offset")["detail"] == detail
    too_long = bytes(len(ARCHIVE) - 99)
    for piece in (too_long, iter([too_long[:9], too_long[9:]])):
        answer = put_piece(api, upload_id, 100, piece)
        message = f"this piece ends after the size_bytes of the upload: {len(ARCHIVE)}"
        assert errors_of(answer) == {"": message}
    assert received_bytes(api, upload_id) == 100
    assert stored(sessions, store, upload_id) == ARCHIVE[:100]
    assert len(files_of(store, upload_id)) == 1
    assert put_piece(api, upload_id, 100, ARCHIVE[100:]).json()["completed_at"] is not None


def test_an_upload_has_a_thousand_small_pieces_at_most(
    api: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_uploads, "_MOST_SMALL", 3)
    content = os.urandom(3_000_000)
    upload_id = start(api, content)
    for offset in range(3):
        assert put_piece(api, upload_id, offset, content[offset : offset + 1]).status_code == 200
    refused = put_piece(api, upload_id, 3, content[3:100])
    assert errors_of(refused) == {"": "the upload has 3 pieces already: send at least 1048576 bytes at a time"}
    assert len(files_of(store, upload_id)) == 3
    assert put_piece(api, upload_id, 3, content[3:-100]).status_code == 200
    assert put_piece(api, upload_id, len(content) - 100, content[-100:]).json()["completed_at"] is not None


def test_a_body_that_comes_slowly_is_put_together_and_an_interrupted_one_can_be_sent_again(
    api: TestClient, app: FastAPI, sessions: Sessions, store: Store
) -> None:
    content = os.urandom(5_000_000)
    upload_id = start(api, content)
    came: list[dict[str, Any]] = [
        {"type": "http.request", "body": content[at : at + 700_000], "more_body": at + 700_000 < len(content)}
        for at in range(0, len(content), 700_000)
    ]
    assert put_messages(api, app, upload_id, [*came[:3], {"type": "http.disconnect"}]) == 400
    assert files_of(store, upload_id) == []
    assert received_bytes(api, upload_id) == 0
    assert put_messages(api, app, upload_id, came) == 200
    assert stored(sessions, store, upload_id) == content


@pytest.mark.parametrize("contents", [(b"a" * 100, b"b" * 100), (b"a" * 100, b"a" * 100), (b"a" * 100, b"b" * 60)])
def test_of_two_requests_that_send_one_part_the_first_counts(
    contents: tuple[bytes, bytes], api: TestClient, sessions: Sessions, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = start(api, bytes(150))
    both_write, upload = Barrier(2, timeout=120), Store.upload

    def at_once(self: Store, key: str, source: str, **options: Any) -> None:
        both_write.wait()
        upload(self, key, source, **options)

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(Store, "upload", at_once)
        answers = list(pool.map(lambda piece: put_piece(api, upload_id, 0, piece), contents))
    received = received_bytes(api, upload_id)
    assert [(answer.status_code, answer.json()["received_bytes"]) for answer in answers] == 2 * [(200, received)]
    assert len(files_of(store, upload_id)) == len(set(contents))
    rest = b"c" * (150 - received)
    assert put_piece(api, upload_id, received, rest).json()["completed_at"] is not None
    assert stored(sessions, store, upload_id) in [first + rest for first in contents]


def test_an_upload_and_its_code_go_on_when_the_store_is_back(
    api: TestClient, sessions: Sessions, store: Store, tmp_path: Path
) -> None:
    upload_id, code = start(api), upload_code(api, archive_of())
    put_piece(api, upload_id, 0, ARCHIVE[:100])
    os.rename(tmp_path / "store", tmp_path / "elsewhere")
    for away in (put_piece(api, upload_id, 100, ARCHIVE[100:]), api.post("/v1/code", json={"upload": code})):
        problem(away, 503, "store-away")
        assert int(away.headers["Retry-After"]) > 0
    assert not (tmp_path / "store").exists()
    assert received_bytes(api, upload_id) == 100
    os.rename(tmp_path / "elsewhere", tmp_path / "store")
    assert put_piece(api, upload_id, 100, ARCHIVE[100:]).json()["completed_at"] is not None
    assert stored(sessions, store, upload_id) == ARCHIVE
    assert api.post("/v1/code", json={"upload": code}).status_code == 201


def test_a_store_that_hangs_is_a_503_and_keeps_what_it_reads(
    api: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = start(api)
    answered, ended = Event(), Event()
    read: list[bytes] = []

    def hangs(self: Store, key: str, source: str, *, still_needed: Callable[[], bool]) -> None:
        answered.wait(120)
        assert not still_needed()
        read.append(Path(source).read_bytes())
        ended.set()

    with monkeypatch.context() as patched:
        patched.setattr(Store, "upload", hangs)
        patched.setattr(stored_uploads, "_SEND_S", 0.05)
        problem(put_piece(api, upload_id, 0, ARCHIVE), 503, "store-away")
        answered.set()
        assert ended.wait(120)
    assert read == [ARCHIVE]
    assert received_bytes(api, upload_id) == 0
    assert put_piece(api, upload_id, 0, ARCHIVE).json()["completed_at"] is not None


def test_an_upload_goes_on_where_it_began_and_needs_the_setting_in_the_store(
    api: TestClient, configuration: Settings, store: Store
) -> None:
    upload_id = start(api)
    code = upload_code(api, archive_of())
    with without_store(configuration) as other:
        for answer in (put_piece(other, upload_id, 0, ARCHIVE), other.post("/v1/code", json={"upload": code})):
            detail = problem(answer, 503, "store-away")["detail"]
            assert detail == "the store is away: HORA_STORE is not set"
    assert put_piece(api, upload_id, 0, ARCHIVE).status_code == 200
    assert api.post("/v1/code", json={"upload": code}).status_code == 201

    archive = archive_of({"other.py": "x = 1\n"})
    with without_store(configuration) as before:  # an upload that began on disk goes on there
        upload_id = start(before, archive, purpose="code")
        assert put_piece(before, upload_id, 0, archive[:50]).status_code == 200
        removed = start(before)
        put_piece(before, removed, 0, ARCHIVE)
    assert put_piece(api, upload_id, 50, archive[50:]).json()["completed_at"] is not None
    folder = configuration.datasets / uploads.FOLDER
    assert (folder / upload_id).read_bytes() == archive
    assert files_of(store, upload_id) == []
    assert api.post("/v1/code", json={"upload": upload_id}).status_code == 201
    assert api.delete(f"/v1/uploads/{removed}").status_code == 204
    assert list(folder.iterdir()) == []


def test_a_removed_upload_is_gone(api: TestClient, configuration: Settings, store: Store) -> None:
    upload_id = start(api)
    put_piece(api, upload_id, 0, ARCHIVE[:100])
    for _ in range(2):
        assert api.delete(f"/v1/uploads/{upload_id}").status_code == 204
    for offset, piece in ((0, ARCHIVE[:100]), (100, ARCHIVE[100:])):
        problem(put_piece(api, upload_id, offset, piece), 410, "upload-gone")
    assert len(files_of(store, upload_id)) == 1
    assert not (configuration.datasets / uploads.FOLDER).exists()


def test_code_is_made_from_pieces_in_the_store(
    api: TestClient, configuration: Settings, sessions: Sessions, store: Store
) -> None:
    archive = archive_of({"train.py": "print(1)\n", "weights": os.urandom(1_500_000).hex()})
    answer = send_code(api, archive, sha256=hashlib.sha256(archive).hexdigest())
    assert answer.status_code == 201, answer.text
    digest = answer.json()["digest"]
    assert api.get(f"/v1/code/{digest}/archive").content == archive
    assert api.get("/v1/uploads").json()["items"] == []
    with sessions() as session:
        (row,) = session.scalars(select(Upload))
        assert len(upload_pieces.pieces_of(session, row.id)) > 1
    again = api.post("/v1/code", json={"upload": row.id})
    assert "its bytes are gone" in errors_of(again)["upload"]
    assert not (configuration.datasets / uploads.FOLDER).exists()


def test_two_requests_make_code_of_an_upload_once(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, client_of: Callable[..., TestClient]
) -> None:
    upload_id = upload_code(api, archive_of())
    both_read, download = Barrier(2, timeout=120), Store.download

    def at_once(self: Store, key: str, target: Path, **options: Any) -> None:
        both_read.wait()
        download(self, key, target, **options)

    monkeypatch.setattr(Store, "download", at_once)
    clients = (api, client_of("ann", "admin"))  # one user has one turn
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda client: client.post("/v1/code", json={"upload": upload_id}), clients))
    made, refused = sorted(answers, key=lambda answer: answer.status_code)
    assert made.status_code == 201
    assert errors_of(refused).keys() == {"upload"}
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(CodeArchive)) == 1


def test_code_from_a_damaged_piece_or_from_no_archive_is_refused(api: TestClient, store: Store) -> None:
    for damage, why in ((b"other bytes", "the store has other bytes at 0"), (None, "the store has lost the bytes")):
        upload_id = upload_code(api, archive_of())
        (key,) = files_of(store, upload_id)
        store.remove([key]) if damage is None else store.write(key, damage)
        errors = errors_of(api.post("/v1/code", json={"upload": upload_id}))
        assert errors.keys() == {"upload"}
        assert why in errors["upload"]
        assert errors["upload"].endswith(": send it again")
    used_up = upload_code(api, b"no archive at all")
    assert errors_of(api.post("/v1/code", json={"upload": used_up})).keys() == {"upload"}
    assert api.get(f"/v1/uploads/{used_up}").json()["removed_at"] is not None


def test_an_upload_comes_to_an_s3_server(configuration: Settings, sessions: Sessions, tmp_path: Path) -> None:
    archive = archive_of({"train.py": "print(1)\n", "weights": os.urandom(600_000).hex()})
    large = os.urandom(6_000_000) + ARCHIVE  # more than one part of a file
    with s3_server(tmp_path / "s3") as server:
        on_s3 = configuration.model_copy(update={"store": server.url, "store_options": json.dumps(server.options)})
        store = store_of(on_s3)
        assert store is not None
        with TestClient(app_for(on_s3), raise_server_exceptions=False, headers=HEADERS) as api:
            assert send_code(api, archive).status_code == 201
            upload_id = start(api, large)
            assert put_piece(api, upload_id, 0, large[:-50]).json()["received_bytes"] == len(large) - 50
            assert put_piece(api, upload_id, len(large) - 50, large[-50:]).json()["completed_at"] is not None
        assert stored(sessions, store, upload_id) == large
    assert not (configuration.datasets / uploads.FOLDER).exists()
