"""Copies in a store on a real S3 server: downloads, redirects to the server, and a server that is away."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from jobs.copies.store import Store
from jobs.db.engine import Sessions
from tests.code import archive_of, send_code
from tests.integration.api.answers import problem
from tests.integration.api.artifacts.conftest import path_of
from tests.integration.api.copies.stored import note_checkpoint, put_artifacts, put_checkpoint
from tests.integration.api.uploading import ARCHIVE, put_piece, start, stored
from tests.s3 import SECRET, S3Server, s3_server

NETWORK = bytes(range(251)) * 10_000
NAME = 'größe "a".html'
REDIRECT = {"redirect": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def place(server: S3Server, tmp_path: Path) -> dict[str, str]:
    return {"store": f"{server.url}/{tmp_path.name}", "store_options": json.dumps(server.options)}


@pytest.fixture
def copied(store: Store, sessions: Sessions, job_id: str) -> str:
    put_artifacts(store, job_id, {"model.keras": NETWORK, NAME: b"<script>", "empty": b""})
    note_checkpoint(sessions, job_id, 10)
    put_checkpoint(store, job_id, 10, {"rank 0/x.npz": NETWORK})
    return job_id


def test_files_are_listed_and_sent_in_parts_also_by_the_server_itself(
    api: TestClient, store: Store, copied: str
) -> None:
    assert [item["path"] for item in api.get(path_of(copied)).json()["items"]] == ["empty", NAME, "model.keras"]
    assert api.get(path_of(copied, "model.keras")).content == NETWORK
    assert api.get(path_of(copied, "empty")).content == b""
    part = api.get(path_of(copied, "model.keras"), headers={"Range": "bytes=1048570-2097160"})
    assert (part.status_code, part.content) == (206, NETWORK[1048570:2097161])
    (checkpoint,) = api.get(f"/v1/jobs/{copied}/checkpoints").json()["items"]
    assert checkpoint["bytes"] == len(NETWORK)
    path = f"/v1/jobs/{copied}/checkpoints/1/10/rank%200/x.npz"
    assert api.get(path).content == NETWORK

    answer = api.get(path_of(copied, NAME), params=REDIRECT, follow_redirects=False)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (307, "no-store")
    assert SECRET not in answer.headers["Location"]
    assert "X-Amz-Expires=300" in answer.headers["Location"]
    page = httpx.get(answer.headers["Location"])
    assert (page.status_code, page.content) == (200, b"<script>")
    expected = "attachment; filename=\"gr__e _a_.html\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%22a%22.html"
    assert page.headers["Content-Disposition"] == expected
    unchanged = {"If-None-Match": api.head(path_of(copied, NAME), params=REDIRECT).headers["ETag"]}
    assert api.get(path_of(copied, NAME), params=REDIRECT, headers=unchanged).status_code == 304
    assert api.get(path_of(copied, NAME), params={"redirect": "false"}).content == b"<script>"
    assert api.get(path_of(copied, "empty"), params=REDIRECT, follow_redirects=False).status_code == 307
    answer = api.get(path, params=REDIRECT, follow_redirects=False)
    part = httpx.get(answer.headers["Location"], headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, NETWORK[5:10])
    other_key = answer.headers["Location"].replace("x.npz", "y.npz")
    assert httpx.get(other_key).status_code == 403
    store.remove([file.key for file in store.files(f"jobs/{copied}/checkpoints")])
    problem(api.get(path, params=REDIRECT), 404, "copy-lost")


def test_a_server_that_is_away_is_a_503_until_it_is_back(api: TestClient, copied: str, server: S3Server) -> None:
    path = path_of(copied, "model.keras")
    assert api.get(path).status_code == 200
    server.stop()
    try:
        for params in ({}, REDIRECT):
            assert SECRET not in str(problem(api.get(path, params=params), 503, "store-away"))
        assert api.get("/v1/jobs").status_code == 200
    finally:
        server.start()
    assert api.get(path).content == NETWORK


def test_an_upload_comes_to_the_server(api: TestClient, sessions: Sessions, store: Store) -> None:
    large = os.urandom(6_000_000) + ARCHIVE  # more than one part of a file
    assert send_code(api, archive_of({"train.py": "x" * 10, "weights": os.urandom(600_000).hex()})).status_code == 201
    upload_id = start(api, large)
    assert put_piece(api, upload_id, 0, large[:-50]).json()["received_bytes"] == len(large) - 50
    assert put_piece(api, upload_id, len(large) - 50, large[-50:]).json()["completed_at"] is not None
    assert stored(sessions, store, upload_id) == large


class TestWithWrongCredentials:
    @pytest.fixture
    def place(self, server: S3Server) -> dict[str, str]:
        options = server.options | {"key": "AKIA-nobody", "secret": "wrong-secret"}
        return {"store": server.url, "store_options": json.dumps(options)}

    def test_a_refusal_names_none_of_them(self, api: TestClient, job_id: str) -> None:
        away = str(problem(api.get(path_of(job_id)), 503, "store-away"))
        assert "AKIA-nobody" not in away
        assert "wrong-secret" not in away
