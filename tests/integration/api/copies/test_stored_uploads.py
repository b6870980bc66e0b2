"""Uploads whose pieces are in the store: small ones, racing ones, without the store, damaged, and read as code."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from api.files import stored_uploads
from jobs.copies.store import Store
from jobs.data import code, upload_pieces, uploads
from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, CodePiece, Upload
from jobs.runtime.settings import Settings
from tests.archives import zip_of
from tests.code import archive_of, send_code, upload_code
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import client_with
from tests.integration.api.uploading import ARCHIVE, put_piece, received_bytes, start, stored
from tests.integration.jobs.job_rows import count


def files_of(store: Store, upload_id: str) -> list[str]:
    return [file.key for file in store.files(f"uploads/{upload_id}")]


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
        away = problem(put_piece(api, upload_id, 0, ARCHIVE), 503, "store-away")
        assert away["detail"].startswith("the store is away: it does not answer")
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
    with client_with(configuration, store=None) as other:
        for answer in (put_piece(other, upload_id, 0, ARCHIVE), other.post("/v1/code", json={"upload": code})):
            detail = problem(answer, 503, "store-away")["detail"]
            assert detail == "the store is away: HORA_STORE is not set"
    assert put_piece(api, upload_id, 0, ARCHIVE).status_code == 200
    assert api.post("/v1/code", json={"upload": code}).status_code == 201

    archive = archive_of({"other.py": "x = 1\n"})
    with client_with(configuration, store=None) as before:  # an upload that began on disk goes on there
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


def test_code_is_made_from_pieces_in_the_store(
    api: TestClient, configuration: Settings, sessions: Sessions, store: Store
) -> None:
    archive = zip_of({"train.py": b"print(1)\n", "weights": os.urandom(3_500_000)})
    answer = send_code(api, archive, sha256=hashlib.sha256(archive).hexdigest())
    assert answer.status_code == 201, answer.text
    digest = answer.json()["digest"]
    download = api.get(f"/v1/code/{digest}/archive")
    assert download.content == archive
    assert download.headers["Content-Disposition"].endswith('.zip"')
    assert api.get("/v1/uploads").json()["items"] == []
    with sessions() as session:
        (row,) = session.scalars(select(Upload))
        assert len(upload_pieces.pieces_of(session, row.id)) > 3
    assert count(sessions, CodePiece) == -(-len(archive) // code.PIECE_BYTES) > 3
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
    assert count(sessions, CodeArchive) == 1


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
