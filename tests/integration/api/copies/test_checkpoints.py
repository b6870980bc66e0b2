"""Checkpoints that are in the store: those from which the job may continue, whole and undamaged."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func

from api.main import app_for
from hora import Client
from jobs.copies import manifests
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.lifecycle.store import touch
from jobs.runtime.settings import Settings
from tests.integration.api.answers import pages_of, problem
from tests.integration.api.copies.stored import note_checkpoint, put_artifacts, put_checkpoint
from tests.integration.api.starting_rows import TOKEN, an_attempt
from tests.servers import serving

WEIGHTS = bytes(range(251)) * 10_000
FILES = {"model.pt": WEIGHTS, ".metadata": b"hidden, as PyTorch has it", 'rank 0/größe".bin': b"inner", "empty": b""}


def path_of(job_id: str, attempt: int = 1, step: int | str = "", path: str = "") -> str:
    return f"/v1/jobs/{job_id}/checkpoints" + (f"/{attempt}/{step}/{path}" if step != "" else "")


@pytest.fixture
def saved(store: Store, sessions: Sessions, job_id: str) -> str:
    """The job has saved at the steps 10, 20 and 30. The second one is the best."""
    for step, accuracy in ((10, 0.5), (20, 0.9), (30, 0.7)):
        note_checkpoint(sessions, job_id, step, val_accuracy=accuracy)
        put_checkpoint(store, job_id, step, FILES)
    return job_id


def steps_of(api: TestClient, job_id: str) -> list[tuple[int, int]]:
    return [(item["attempt"], item["step"]) for item in api.get(path_of(job_id)).json()["items"]]


def test_the_checkpoints_are_listed_the_newest_first(api: TestClient, store: Store, saved: str) -> None:
    items = api.get(path_of(saved)).json()["items"]
    assert [(item["step"], item["epoch"], item["is_best"]) for item in items] == [
        (30, 3, False), (20, 2, True), (10, 1, False),
    ]  # fmt: skip
    assert items[0] == {
        "attempt": 1, "step": 30, "epoch": 3, "saved_at": "2030-01-01T12:00:00.250000Z", "is_best": False,
        "bytes": sum(map(len, FILES.values())),
        "files": [
            {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in FILES.items()
        ],
    }  # fmt: skip

    assert pages_of(api, path_of(saved), limit=1) == [[item] for item in items]
    again = {"If-None-Match": api.get(path_of(saved)).headers["ETag"]}
    assert api.get(path_of(saved), headers=again).status_code == 304
    manifests.remove_checkpoint(store, saved, 1, 10)
    assert api.get(path_of(saved), headers=again).status_code == 200
    assert steps_of(api, saved) == [(1, 30), (1, 20)]


def test_a_step_that_was_trained_again_is_left_out(
    api: TestClient, store: Store, sessions: Sessions, saved: str
) -> None:
    an_attempt(sessions, saved, 2, resumed_step=20)
    assert steps_of(api, saved) == [(1, 20), (1, 10)]
    note_checkpoint(sessions, saved, 25, attempt=2)
    put_checkpoint(store, saved, 25, FILES, attempt=2)
    assert steps_of(api, saved) == [(2, 25), (1, 20), (1, 10)]
    problem(api.get(path_of(saved, 1, 30, "model.pt")), 404, "checkpoint-not-found")
    assert api.get(path_of(saved, 2, 25, "model.pt")).content == WEIGHTS


def test_what_is_not_whole_in_the_store_is_left_out(
    api: TestClient, store: Store, sessions: Sessions, saved: str
) -> None:
    manifest = manifests.Manifests(store, saved)
    of_another_step = store.read(manifests.checkpoint_manifest_key(saved, 1, 20))
    for damaged in (of_another_step, b"{damaged"):
        store.write(manifests.checkpoint_manifest_key(saved, 1, 30), damaged)
        assert steps_of(api, saved) == [(1, 20), (1, 10)]
    store.remove([manifest.checkpoint(1, 20).files[0].key])
    assert steps_of(api, saved) == [(1, 10)]
    store.write(manifest.checkpoint(1, 10).files[0].key, b"shorter")
    assert steps_of(api, saved) == []
    note_checkpoint(sessions, saved, 40)  # it is not copied yet
    assert steps_of(api, saved) == []
    for step, path in ((30, "model.pt"), (40, "model.pt"), (20, "nothing"), ("x", "x"), (2**70, "x"), (-1, "x")):
        problem(api.get(path_of(saved, 1, step, path)), 404, "checkpoint-not-found")
    assert api.get(path_of(saved, 1, 20, "model.pt")).json()["type"] == "urn:hora:problem:copy-lost"


def test_files_are_sent_as_artifacts_are(api: TestClient, saved: str) -> None:
    path = path_of(saved, 1, 20, "model.pt")
    answer = api.get(path, headers={"Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.content) == (200, WEIGHTS)
    tag = answer.headers["ETag"]
    assert tag == f'"sha256-{hashlib.sha256(WEIGHTS).hexdigest()}"'
    part = api.get(path, headers={"Range": "bytes=1048570-1048580", "If-Range": tag})
    assert (part.status_code, part.content) == (206, WEIGHTS[1048570:1048581])
    head = api.head(path, headers={"Range": "bytes=5-"})  # which is for GET
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(WEIGHTS)), b"")
    assert api.get(path_of(saved, 1, 20, ".metadata")).content == FILES[".metadata"]
    assert api.get(path_of(saved, 1, 20, "rank%200/gr%C3%B6%C3%9Fe%22.bin")).content == b"inner"


def test_removed_checkpoints_are_gone_at_once(
    api: TestClient, sessions: Sessions, saved: str, submit_job: Callable[..., str]
) -> None:
    with sessions.begin() as session:
        touch(session, saved, files_removed_at=func.now())
    for job_id in (saved, submit_job()):  # the second one never saved
        assert api.get(path_of(job_id)).json() == {"items": [], "next_cursor": None}
    problem(api.get(path_of(saved, 1, 20, "model.pt")), 410, "checkpoints-removed")
    for path in (path_of("nosuchjob"), path_of("nosuchjob", 1, 2, "x")):
        assert api.get(path).json()["type"] == "urn:hora:problem:job-not-found"


class TestWithoutStore:
    @pytest.fixture
    def place(self) -> dict[str, str]:
        return {}

    def test_the_host_and_the_setting_are_named(
        self, api: TestClient, job_id: str, submit_job: Callable[..., str]
    ) -> None:
        for path in (path_of(job_id), path_of(job_id, 1, 20, "model.pt")):
            refused = problem(api.get(path), 409, "no-store")
            assert "on host ha" in refused["detail"]
            assert "HORA_STORE" in refused["detail"]
        assert "no rank of the job has started" in api.get(path_of(submit_job())).json()["detail"]


def test_the_client_fetches_checkpoints_and_artifacts_from_a_real_api(
    store: Store, sessions: Sessions, job_id: str, configuration: Settings, tmp_path: Path
) -> None:
    for step in (10, 20):
        note_checkpoint(sessions, job_id, step, val_accuracy=step / 100)
        put_checkpoint(store, job_id, step, FILES)
    put_artifacts(store, job_id, {"a/model.keras": WEIGHTS})
    with serving(app_for(configuration), configuration) as port, Client(f"http://127.0.0.1:{port}", TOKEN) as client:
        job = client.jobs.get(job_id)
        assert [(one.step, one.is_best) for one in job.checkpoints(page_size=1)] == [(20, True), (10, False)]
        assert next(client.jobs.checkpoints(job_id)).files[0].sha256 == hashlib.sha256(WEIGHTS).hexdigest()
        saved = client.jobs.download_checkpoint(job_id, "best", tmp_path / "best")
        assert {str(path.relative_to(tmp_path / "best")): path.read_bytes() for path in saved} == FILES
        assert job.download("a/model.keras", tmp_path / "m").read_bytes() == WEIGHTS
