"""What is kept no more goes from the store: old checkpoints, artifacts that were given up, and nothing else."""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

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


@pytest.fixture
def store(tmp_path: Path, sessions: Sessions) -> Store:
    store = Store(f"file://{tmp_path}/team", {})
    require_mark(sessions, store)
    return store


@pytest.fixture
def old(sessions: Sessions, store: Store, tmp_path: Path, database: str) -> OldCopies:
    return OldCopies(sessions, store, Settings(home=tmp_path / "home", database_url=database, keep_files_days=30))


@pytest.fixture
def remove(sessions: Sessions, old: OldCopies) -> Callable[[], None]:
    """Let a host have its turn."""

    def remove() -> None:
        with sessions.begin() as session:
            session.execute(update(MarkedStore).values(tidied_at=None))
        old.once()

    return remove


def a_job(sessions: Sessions, store: Store, *, days_ago: float | None = 31) -> str:
    """A job with copies that ended so long ago; None: it still runs."""
    job_id = job_rows.a_job_that_is(sessions, Status.RUNNING if days_ago is None else Status.SUCCEEDED)
    if days_ago is not None:
        change(sessions, job_id, ended_at=func.now() - timedelta(days=days_ago))
    write(store, job_id)
    return job_id


def write(store: Store, job_id: str) -> None:
    for name in CHECKPOINTS + ARTIFACTS:
        store.write(f"jobs/{job_id}/{name}", b"{}")


def change(sessions: Sessions, job_id: str, **values: object) -> None:
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


def left(store: Store, job_id: str) -> list[str]:
    return [file.key.removeprefix(f"jobs/{job_id}/") for file in store.files(f"jobs/{job_id}")]


def test_checkpoints_of_old_jobs_go_and_everything_else_stays(
    sessions: Sessions, store: Store, remove: Callable[[], None]
) -> None:
    old, young, running = (a_job(sessions, store, days_ago=days) for days in (31, 29, None))
    job_rows.a_host(sessions)
    holding = job_rows.an_attempt(sessions, job_rows.a_job(sessions)).job_id
    change(sessions, holding, ended_at=func.now() - timedelta(days=99))  # its slot is in quarantine
    for unknown in ("0fanotherstack", "Notes", holding):
        write(store, unknown)
    store.write("jobs/README", b"of a person")
    remove()
    assert left(store, old) == ARTIFACTS
    for untouched in (young, running, holding, "0fanotherstack", "Notes"):
        assert left(store, untouched) == sorted(CHECKPOINTS + ARTIFACTS)
    assert store.read("jobs/README")


def test_what_a_person_removed_or_deleted_or_gave_up_goes_although_its_host_is_gone_for_good(
    sessions: Sessions, store: Store, remove: Callable[[], None]
) -> None:
    kept, removed, deleted, young = (a_job(sessions, store, days_ago=1) for _ in range(4))
    old = a_job(sessions, store, days_ago=400)
    with sessions.begin() as session:
        assert session.query(Host).count() == 0
        artifacts.remove_artifacts(session, removed)
        deletion.delete_job(session, locked_job(session, deleted))
    change(sessions, young, artifacts_removed_at=func.now())
    for _ in range(2):
        remove()
        assert sorted(store.folders("jobs")) == sorted([kept, young, old])
        write(store, deleted)  # by a host that was cut off
    assert (left(store, young), left(store, old)) == (CHECKPOINTS, ARTIFACTS)
    assert left(store, kept) == sorted(CHECKPOINTS + ARTIFACTS)
    change(sessions, old, artifacts_removed_at=func.now())
    remove()
    assert sorted(store.folders("jobs")) == sorted([kept, young])


def test_what_a_host_adds_after_the_removal_goes_a_day_later_or_when_it_has_copied_all(
    sessions: Sessions, store: Store, remove: Callable[[], None]
) -> None:
    job_id = a_job(sessions, store, days_ago=2)
    with sessions.begin() as session:
        artifacts.remove_artifacts(session, job_id)
        session.add(Attempt(job_id=job_id, number=1, host="ha", gpus=1, lease_expires_at=func.now()))
    remove()
    write(store, job_id)  # by a host that began before the files were removed
    remove()
    assert len(left(store, job_id)) == 4  # the store is not asked again at once
    _shift(sessions, job_id, days=1.1)
    remove()
    assert left(store, job_id) == []
    _shift(sessions, job_id, days=9)
    write(store, job_id)
    remove()
    assert len(left(store, job_id)) == 4  # nobody could have written it
    with sessions.begin() as session:  # but a host that was away
        session.execute(update(Attempt).values(copied_at=func.now(), ended_at=func.now()))
    remove()
    assert left(store, job_id) == []


def _shift(sessions: Sessions, job_id: str, *, days: float) -> None:
    """Let all that happened to a job be longer ago."""
    columns = ("files_removed_at", "artifacts_removed_at", "copies_tidied_at")
    earlier = {name: getattr(Job, name) - timedelta(days=days) for name in columns}
    change(sessions, job_id, **earlier)


def test_one_host_has_its_turn_in_an_hour(
    sessions: Sessions, store: Store, old: OldCopies, tmp_path: Path, database: str
) -> None:
    settings = Settings(home=tmp_path / "hb", database_url=database, host_name="hb")
    other = OldCopies(sessions, store, settings)
    gone = a_job(sessions, store)
    old.once()
    assert left(store, gone) == ARTIFACTS
    later = a_job(sessions, store)
    for host in (other, old):
        host.once()
    assert len(left(store, later)) == 4
    for turn in (func.now() - timedelta(minutes=61), func.now() + timedelta(days=1)):  # the clock was ahead
        with sessions.begin() as session:
            session.execute(update(MarkedStore).values(tidied_at=turn))
        later = a_job(sessions, store)
        other.once()
        assert left(store, later) == ARTIFACTS


def test_manifests_go_first_and_an_interrupted_removal_goes_on(
    sessions: Sessions, store: Store, remove: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = a_job(sessions, store)

    def away(self: Store, prefix: str) -> None:
        raise StoreAway("it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove_below", away)
        remove()
    assert Manifests(store, job_id).checkpoints() == []
    assert CHECKPOINTS[0] in left(store, job_id)
    assert job_rows.the_job(sessions, job_id).copies_tidied_at is None
    remove()
    assert left(store, job_id) == ARTIFACTS


def test_a_pass_has_no_transaction_open_while_files_go(
    sessions: Sessions, store: Store, remove: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_job(sessions, store)
    remove_below, locked = Store.remove_below, []

    def watched(self: Store, prefix: str) -> None:
        with sessions() as session:
            busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
            locked.append(session.execute(text(busy)).scalar_one())
        remove_below(self, prefix)

    monkeypatch.setattr(Store, "remove_below", watched)
    remove()
    assert locked == [0]


def test_a_store_that_was_never_used_has_no_turn(
    sessions: Sessions, store: Store, old: OldCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.begin() as session:
        session.execute(delete(MarkedStore))
    monkeypatch.delattr(Store, "folders")
    old.once()


def test_the_process_that_copies_also_removes(sessions: Sessions, store: Store, tmp_path: Path, database: str) -> None:
    job_id = a_job(sessions, store)
    (tmp_path / "home").mkdir()
    settings = {
        "HORA_HOME": str(tmp_path / "home"),
        "HORA_STORE": store.url,
        "HORA_DATABASE_URL": database,
        "HORA_RETENTION_PERIOD_S": "0.1",
    }
    argv = [sys.executable, "-m", "worker.copies.process"]
    with Popen(argv, stdin=PIPE, stderr=DEVNULL, env=os.environ | settings) as process:
        until(lambda: left(store, job_id) == ARTIFACTS, what="old checkpoints gone")
        process.communicate(timeout=30)
    assert process.returncode == 0
