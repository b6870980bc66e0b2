"""A supervisor whose ranks find their disk full: it waits with them, says why, and uses up no restart."""

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt, JobEvent
from jobs.model.records import rank_note_name
from jobs.model.states import EndReason, EventKind, Status
from tests.full_disks import fill_up, small_disk
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run
from trainer.note import Note
from worker.attempt.members import Members
from worker.attempt.paths import paths_of
from worker.attempt.space_lookout import SpaceLookout


def test_ranks_that_cannot_write_are_not_stalled_and_say_why_they_end(run: Run, sessions: Sessions) -> None:
    supervised = run("without space", stall_timeout_s=2.0)
    assert supervised.wait_for_end() is EndReason.NO_SPACE
    job = job_rows.the_job(sessions, supervised.lease.job_id)
    assert (job.status, job.restarts, job.losses) == (Status.QUEUED, 0, 1)
    with sessions() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.kind == EventKind.OUT_OF_SPACE)).all()
    assert [event.data for event in events] == [{"rank": 0, "why": "No space left on device"}]


def test_the_wait_for_space_does_not_count_for_the_time_limit(run: Run) -> None:
    assert run("waits for space", time_limit_s=1.0).wait_for_end() is EndReason.COMPLETED


def test_the_event_of_a_full_disk_is_stored_when_the_database_takes_it_again(
    sessions: Sessions, database: str, tmp_path: Path
) -> None:
    job_rows.a_host(sessions, slots=1)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    paths = paths_of(tmp_path / "runs", lease.job_id, lease.number)
    paths.create([0])
    Note(paths.records / rank_note_name(0)).write(records=1, why="No space left on device")
    engine = engine_for(database, patience_s=0.1)
    lookout = SpaceLookout(sessions_for(engine), lease, paths, [0], Members())
    with sessions.begin() as session:
        session.execute(select(Attempt).with_for_update())
        assert lookout.look()
        with pytest.raises(OperationalError):
            lookout.store_event()
    for _ in range(2):
        lookout.look()
        lookout.store_event()
    engine.dispose()
    with sessions() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.kind == EventKind.OUT_OF_SPACE)).all()
    assert [event.data for event in events] == [{"rank": 0, "why": "No space left on device"}]


def test_an_attempt_that_a_full_disk_ends_uses_up_no_restart(run: Run, sessions: Sessions, tmp_path: Path) -> None:
    """Its rank dies when it cannot write. Its lease is extended and its end stored all the same."""
    with small_disk(tmp_path / "runs", size_bytes=2**20) as disk:
        supervised = run(lease_s=20)
        supervised.wait_for_steps()
        fill_up(disk)
        assert supervised.wait_for_end() is EndReason.NO_SPACE
        assert (supervised.attempt.error or "").startswith("host ha has no space: runs has 0.0 MB free, less than")
    job = job_rows.the_job(sessions, supervised.lease.job_id)
    assert (job.status, job.restarts, job.losses) == (Status.QUEUED, 0, 1)
