"""What is kept no more goes from the store: old checkpoints, artifacts that were given up, and nothing else."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pytest
from sqlalchemy import delete, func, text, update

from jobs.copies.manifests import Manifests
from jobs.copies.marks import require_mark
from jobs.copies.store import Store, StoreAway
from jobs.data import artifacts
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, MarkedStore
from jobs.lifecycle import deletion
from jobs.lifecycle.store import locked_job
from jobs.model.states import Status
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.waiting import until
from worker.copies.old import OldCopies

CHECKPOINTS = ["checkpoints/attempt-1/step-0000000007/epoch-1.h5", "manifests/checkpoint-1-0000000007.json"]
ARTIFACTS = ["artifacts/attempt-1/abc/model.weights.h5", "manifests/artifacts-1.json"]


class Shelf:
    """A store with copies of jobs, and host `ha`, which removes the old ones."""

    def __init__(self, folder: Path, sessions: Sessions, database: str) -> None:
        self.sessions, self.database, self.folder = sessions, database, folder
        self.store = Store(f"file://{folder}/team", {})
        require_mark(sessions, self.store)
        self.old = self.of_host("ha")

    def of_host(self, name: str) -> OldCopies:
        settings = Settings(home=self.folder / name, database_url=self.database, host_name=name, keep_files_days=30)
        return OldCopies(self.sessions, self.store, settings)

    def tidied(self, at: Any) -> None:
        """Let the last turn of a host have been then."""
        with self.sessions.begin() as session:
            session.execute(update(MarkedStore).values(tidied_at=at))

    def remove(self) -> None:
        """Let a host have its turn."""
        self.tidied(None)
        self.old.once()

    def a_job(self, *, days_ago: float | None = 31) -> str:
        """A job with copies that ended so long ago; None: it still runs."""
        job_id = job_rows.a_job_that_is(self.sessions, Status.RUNNING if days_ago is None else Status.SUCCEEDED)
        if days_ago is not None:
            self.change(job_id, ended_at=func.now() - timedelta(days=days_ago))
        self.write(job_id)
        return job_id

    def write(self, job_id: str) -> None:
        for name in CHECKPOINTS + ARTIFACTS:
            self.store.write(f"jobs/{job_id}/{name}", b"{}")

    def change(self, job_id: str, **values: object) -> None:
        with self.sessions.begin() as session:
            session.execute(update(Job).where(Job.id == job_id).values(**values))

    def shift(self, job_id: str, *, days: float) -> None:
        """Let all that happened to a job be longer ago."""
        columns = ("files_removed_at", "artifacts_removed_at", "copies_tidied_at")
        self.change(job_id, **{name: getattr(Job, name) - timedelta(days=days) for name in columns})

    def left(self, job_id: str) -> list[str]:
        return [file.key.removeprefix(f"jobs/{job_id}/") for file in self.store.files(f"jobs/{job_id}")]


@pytest.fixture
def shelf(tmp_path: Path, sessions: Sessions, database: str) -> Shelf:
    return Shelf(tmp_path, sessions, database)


def test_checkpoints_of_old_jobs_go_and_everything_else_stays(shelf: Shelf) -> None:
    old, young, running = (shelf.a_job(days_ago=days) for days in (31, 29, None))
    job_rows.a_host(shelf.sessions)
    holding = job_rows.an_attempt(shelf.sessions, job_rows.a_job(shelf.sessions)).job_id
    shelf.change(holding, ended_at=func.now() - timedelta(days=99))  # its slot is in quarantine
    for unknown in ("0fanotherstack", "Notes", holding):
        shelf.write(unknown)
    shelf.store.write("jobs/README", b"of a person")
    shelf.remove()
    assert shelf.left(old) == ARTIFACTS
    for untouched in (young, running, holding, "0fanotherstack", "Notes"):
        assert shelf.left(untouched) == sorted(CHECKPOINTS + ARTIFACTS)
    assert shelf.store.read("jobs/README")


def test_what_a_person_removed_or_deleted_or_gave_up_goes_although_its_host_is_gone_for_good(shelf: Shelf) -> None:
    kept, removed, deleted, young = (shelf.a_job(days_ago=1) for _ in range(4))
    old = shelf.a_job(days_ago=400)
    with shelf.sessions.begin() as session:
        assert session.query(Host).count() == 0
        artifacts.remove_artifacts(session, removed)
        deletion.delete_job(session, locked_job(session, deleted))
    shelf.change(young, artifacts_removed_at=func.now())
    for _ in range(2):
        shelf.remove()
        assert sorted(shelf.store.folders("jobs")) == sorted([kept, young, old])
        shelf.write(deleted)  # by a host that was cut off
    assert (shelf.left(young), shelf.left(old)) == (CHECKPOINTS, ARTIFACTS)
    assert shelf.left(kept) == sorted(CHECKPOINTS + ARTIFACTS)
    shelf.change(old, artifacts_removed_at=func.now())
    shelf.remove()
    assert sorted(shelf.store.folders("jobs")) == sorted([kept, young])


def test_what_a_host_adds_after_the_removal_goes_a_day_later_or_when_it_has_copied_all(shelf: Shelf) -> None:
    job_id = shelf.a_job(days_ago=2)
    with shelf.sessions.begin() as session:
        artifacts.remove_artifacts(session, job_id)
        session.add(Attempt(job_id=job_id, number=1, host="ha", gpus=1, lease_expires_at=func.now()))
    shelf.remove()
    shelf.write(job_id)  # by a host that began before the files were removed
    shelf.remove()
    assert len(shelf.left(job_id)) == 4  # the store is not asked again at once
    shelf.shift(job_id, days=1.1)
    shelf.remove()
    assert shelf.left(job_id) == []
    shelf.shift(job_id, days=9)
    shelf.write(job_id)
    shelf.remove()
    assert len(shelf.left(job_id)) == 4  # nobody could have written it
    with shelf.sessions.begin() as session:  # but a host that was away
        session.execute(update(Attempt).values(copied_at=func.now(), ended_at=func.now()))
    shelf.remove()
    assert shelf.left(job_id) == []


def test_one_host_has_its_turn_in_an_hour(shelf: Shelf) -> None:
    other = shelf.of_host("hb")
    gone = shelf.a_job()
    shelf.old.once()
    assert shelf.left(gone) == ARTIFACTS
    later = shelf.a_job()
    for host in (other, shelf.old):
        host.once()
    assert len(shelf.left(later)) == 4
    for turn in (func.now() - timedelta(minutes=61), func.now() + timedelta(days=1)):  # the clock was ahead
        shelf.tidied(turn)
        later = shelf.a_job()
        other.once()
        assert shelf.left(later) == ARTIFACTS


def test_manifests_go_first_and_an_interrupted_removal_goes_on(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = shelf.a_job()

    def away(self: Store, prefix: str) -> None:
        raise StoreAway("it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove_below", away)
        shelf.remove()
    assert Manifests(shelf.store, job_id).checkpoints() == []
    assert CHECKPOINTS[0] in shelf.left(job_id)
    assert job_rows.the_job(shelf.sessions, job_id).copies_tidied_at is None
    shelf.remove()
    assert shelf.left(job_id) == ARTIFACTS


def test_a_pass_has_no_transaction_open_while_files_go(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.a_job()
    remove_below, locked = Store.remove_below, []

    def watched(self: Store, prefix: str) -> None:
        with shelf.sessions() as session:
            busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
            locked.append(session.execute(text(busy)).scalar_one())
        remove_below(self, prefix)

    monkeypatch.setattr(Store, "remove_below", watched)
    shelf.remove()
    assert locked == [0]


def test_a_store_that_was_never_used_has_no_turn(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    with shelf.sessions.begin() as session:
        session.execute(delete(MarkedStore))
    monkeypatch.delattr(Store, "folders")
    shelf.old.once()


def test_the_process_that_copies_also_removes(shelf: Shelf) -> None:
    job_id = shelf.a_job()
    (shelf.folder / "home").mkdir()
    settings = {
        "HORA_HOME": str(shelf.folder / "home"),
        "HORA_STORE": shelf.store.url,
        "HORA_DATABASE_URL": shelf.database,
        "HORA_RETENTION_PERIOD_S": "0.1",
    }
    argv = [sys.executable, "-m", "worker.copies.process"]  # makes its whole session nice
    with Popen(argv, stdin=PIPE, stderr=DEVNULL, env=os.environ | settings, start_new_session=True) as process:
        until(lambda: shelf.left(job_id) == ARTIFACTS, what="old checkpoints gone")
        process.communicate(timeout=30)
    assert process.returncode == 0
