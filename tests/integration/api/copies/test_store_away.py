"""A store that is away is a 503, which ends when the store is back. It takes nothing from other routes."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from api import store_calls
from api.main import app_for
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.answers import problem
from tests.integration.api.copies.stored import note_checkpoint, put_artifacts, put_checkpoint
from tests.integration.api.starting_rows import TOKEN
from tests.servers import serving
from tests.waiting import slowdown, until


@pytest.fixture
def paths(store: Store, sessions: Sessions, job_id: str) -> list[str]:
    """What of the job comes from the store."""
    put_artifacts(store, job_id, {"model.keras": b"network"})
    note_checkpoint(sessions, job_id, 10)
    put_checkpoint(store, job_id, 10, {"x.npz": b"arrays"})
    above = f"/v1/jobs/{job_id}"
    return [
        f"{above}/artifacts", f"{above}/artifacts/model.keras", f"{above}/checkpoints",
        f"{above}/checkpoints/1/10/x.npz",
    ]  # fmt: skip


def test_a_store_that_is_not_mounted_is_away_until_it_is_back(
    api: TestClient, paths: list[str], tmp_path: Path
) -> None:
    assert [api.get(path).status_code for path in paths] == 4 * [200]
    os.rename(tmp_path / "store", tmp_path / "elsewhere")
    for path in paths:
        away = api.get(path)
        assert "emptied, or it is not mounted" in problem(away, 503, "store-away")["detail"]
        assert int(away.headers["Retry-After"]) > 0
    assert api.head(paths[1]).status_code == 503
    os.rename(tmp_path / "elsewhere", tmp_path / "store")
    assert [api.get(path).status_code for path in paths] == 4 * [200]


def test_a_store_that_goes_at_the_first_piece_gives_no_broken_answer_and_calls_no_file_lost(
    api: TestClient, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = Store.chunks

    def fails(self: Store, key: str, part: range) -> Iterator[bytes]:
        raise StoreAway("AccessDenied: not you")
        yield b""

    def emptied(self: Store, key: str, part: range) -> Iterator[bytes]:
        self.remove([key, "hora-store.json"])
        return chunks(self, key, part)

    monkeypatch.setattr(Store, "chunks", fails)
    away = api.get(paths[1])
    assert (away.status_code, away.json()["detail"]) == (503, "the store is away: AccessDenied: not you")
    monkeypatch.setattr(Store, "chunks", emptied)
    assert api.get(paths[1]).json()["type"] == "urn:hora:problem:store-away"


def test_other_routes_are_answered_while_the_store_is_slow(
    configuration: Settings, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, files, begun = Event(), Store.files, []

    def slow(self: Store, prefix: str) -> list[object]:
        begun.append(prefix)
        goes_on.wait()
        return files(self, prefix)

    monkeypatch.setattr(Store, "files", slow)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with (
        serving(app_for(configuration), configuration) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client,
        ThreadPoolExecutor(40) as pool,
    ):
        try:
            waiting = [pool.submit(client.get, paths[0]) for _ in range(40)]
            until(lambda: len(begun) == store_calls._AT_ONCE, what="all threads of the store to wait")
            answer = client.get("/v1/jobs", timeout=5 * slowdown())
            assert answer.status_code == 200
            assert not any(future.done() for future in waiting)
        finally:
            goes_on.set()
        assert {future.result().status_code for future in waiting} == {200}
