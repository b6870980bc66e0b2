"""Jobs that continue from a checkpoint of an ended job: from which one, what must be equal, and what holds it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.copies.store import Store
from jobs.data import artifacts
from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.old_copies import old_copies
from jobs.lifecycle.retention import ended_long_ago
from jobs.lifecycle.store import transition
from jobs.model.states import Status
from tests.integration.api.answers import errors_of
from tests.integration.api.copies.stored import note_checkpoint, put_checkpoint
from tests.integration.api.polls import touches
from tests.integration.api.starting_rows import SPEC


@pytest.fixture
def before(job_id: str, sessions: Sessions) -> str:
    """An ended job of 30 epochs that saved one checkpoint an epoch, of ten steps each, up to epoch 8."""
    for step in range(10, 90, 10):
        note_checkpoint(sessions, job_id, step, val_accuracy=step / 100)
    with sessions.begin() as session:
        for status in (Status.LAUNCHING, Status.RUNNING, Status.CANCELLED):
            transition(session, job_id, status)
        session.execute(update(Job).where(Job.id == job_id).values(ended_at=func.now() - timedelta(days=2)))
    return job_id


def test_the_newest_kept_checkpoint_is_the_default_and_an_epoch_chooses_another(
    api: TestClient, before: str, store: Store, sessions: Sessions
) -> None:
    spec = SPEC | {"continue_from": f"job:{before[:9]}"}
    touches(sessions, before, checkpoint_bytes=0)()  # without files on disk only the store counts
    assert errors_of(api.post("/v1/jobs", json=spec)) == {"continue_from": f"job {before} has no checkpoint"}
    put_checkpoint(store, before, 30, {"a.npz": b"a"})
    stored = api.post("/v1/jobs?dry_run=true", json=spec)
    assert stored.json()["spec"]["continue_from"] == f"job:{before}@3"
    touches(sessions, before, checkpoint_bytes=None)()

    newest = api.post("/v1/jobs", json=spec)
    assert newest.status_code == 201, newest.text
    assert newest.json()["spec"]["continue_from"] == f"job:{before}@8"
    assert newest.json()["continued_from"] == {"job": before, "epoch": 8}
    assert api.get(f"/v1/jobs/{before}").json()["continued_from"] is None
    for epoch in (7, 3):  # on the disk of its host, and in the store
        asked = api.post("/v1/jobs?dry_run=true", json=SPEC | {"continue_from": f"job:{before}@{epoch}"})
        assert asked.json()["spec"]["continue_from"] == f"job:{before}@{epoch}"
    gone = errors_of(api.post("/v1/jobs", json=SPEC | {"continue_from": f"job:{before}@4"}))
    assert gone == {"continue_from": f"job {before} has no checkpoint of epoch 4; there are those of 3, 7, 8"}

    # As `hora submit --continue` and `client.jobs.continue_from` ask for it.
    changes = {"continue_from": f"job:{before}@7", "epochs": 40}
    continued = api.post(f"/v1/jobs/{before}/clone", json=changes).json()
    assert (continued["spec"]["epochs"], continued["spec"]["batch_size"]) == (40, SPEC["batch_size"])
    assert continued["continued_from"] == {"job": before, "epoch": 7}


def test_the_epochs_of_the_job_before_count_and_every_field_that_must_be_as_it_was_is_named(
    api: TestClient, before: str, sessions: Sessions
) -> None:
    spec = SPEC | {"continue_from": f"job:{before}"}
    assert errors_of(api.post("/v1/jobs", json=spec | {"epochs": 8})) == {
        "epochs": f"job {before} has trained 8 epochs there, which count: set at least 9"
    }
    note_checkpoint(sessions, before, 95)  # in the middle of its epoch
    assert api.post("/v1/jobs?dry_run=true", json=spec | {"epochs": 9}).status_code == 200
    assert errors_of(api.post("/v1/jobs", json=spec | {"epochs": 8})).keys() == {"epochs"}

    changed = {
        "dataset": {"source": "digits", "validation": 0.3}, "model": "mlp", "seed": 7, "optimizer": "sgd",
        "early_stopping": {"monitor": "val_loss"}, "precision": "mixed_float16",
    }  # fmt: skip
    found = errors_of(api.post("/v1/jobs", json=spec | changed))
    assert found == {
        field: f"must be {value} as in job {before}, from which this job continues"
        for field, value in {
            "dataset.validation": "0.1", "model.name": "lenet5", "seed": "42", "optimizer.name": "adam",
            "early_stopping.monitor": "val_accuracy", "precision": "float32",
        }.items()
    }  # fmt: skip
    free = {"gpus": 1, "batch_size": 32, "learning_rate": 0.1, "schedule": "cosine", "early_stopping": None}
    same = api.post("/v1/jobs?dry_run=true", json=spec | free)
    assert same.status_code == 200, same.text


def test_only_an_ended_job_with_its_files_can_be_continued_and_they_are_held_until_then(
    api: TestClient, before: str, sessions: Sessions, submit_job: Callable[..., str]
) -> None:
    queued = submit_job()
    touches(sessions, before, files_removed_at=func.now())()
    for name, why in {
        queued: f"job {queued} is queued: a job can continue from it when it has ended",
        before: "were removed on",
        "0" * 12: "there is no job 000000000000",
    }.items():
        assert why in errors_of(api.post("/v1/jobs", json=SPEC | {"continue_from": f"job:{name}"}))["continue_from"]

    touches(sessions, before, files_removed_at=None)()

    def expired() -> tuple[bool, bool, bool]:
        with sessions() as session:
            copies = old_copies(session, [before], keep_days=1)
            marked = artifacts.mark_artifacts_removed(session, keep_days=1)
            return bool(ended_long_ago(session, [before], keep_days=1)), bool(copies), marked

    assert expired() == (True, True, True)
    job_id = api.post("/v1/jobs", json=SPEC | {"continue_from": f"job:{before}"}).json()["id"]
    assert expired() == (False, False, False)
    for address in (f"/v1/jobs/{before}", f"/v1/jobs/{before}/artifacts"):
        refused = api.delete(address)
        assert refused.status_code == 409, refused.text
        assert f"job {job_id} continues from it" in refused.json()["detail"]
    api.post(f"/v1/jobs/{job_id}/cancel")
    assert expired() == (True, True, True)
    assert api.delete(f"/v1/jobs/{before}").status_code == 204
