"""A supervisor obeys, ends all processes, and writes how the attempt ended.

If its lease is not renewed, it ends all processes before the lease expires, and writes nothing after it.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, JobEvent
from jobs.lifecycle import store
from jobs.lifecycle.store import locked_job
from jobs.model.job_changes import changes_from
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason, EventKind, Status
from jobs.people import job_changes
from jobs.people.project_admission import Applicant
from jobs.runtime.processes import ProcessId
from jobs.scheduling import placing
from jobs.telemetry.last_steps import last_steps
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run, Supervised, short_limit_s, stored_rows
from tests.waiting import slowdown, until
from worker.attempt.processes import pids_with_mark


def test_a_job_whose_rank_has_no_device_fails_with_its_sentence_and_is_not_restarted(run: Run) -> None:
    supervised = run("without a device", max_restarts=3)
    assert supervised.wait_for_end() is EndReason.NO_DEVICE
    job = supervised.job
    assert (job.status, job.end_reason, job.attempt) == (Status.FAILED, EndReason.NO_DEVICE, 1)
    assert job.error == supervised.attempt.error == "local rank 0 on host ha has no GPU"


def test_a_job_succeeds_when_its_rank_completes_and_what_it_keeps_is_stored(run: Run) -> None:
    supervised = run("brief")
    (supervised.paths.artifacts / "model.keras").write_bytes(bytes(1000))
    (supervised.paths.checkpoints / "attempt-1").mkdir()
    (supervised.paths.checkpoints / "attempt-1" / "checkpoint-1.npz").write_bytes(bytes(300))
    assert supervised.wait_for_end() is EndReason.COMPLETED
    job = supervised.job
    assert (job.status, job.checkpoint_bytes, job.artifact_bytes) == (Status.SUCCEEDED, 300, 1000)


def test_a_supervisor_whose_lease_is_over_starts_nothing(run: Run) -> None:
    """It stood still before the launch: its slots may belong to another attempt."""
    supervised = run(starts_s=0.0)
    supervised.wait_for_exit()
    assert "the lease was over before the launch" in supervised.paths.supervisor_log.read_text()
    assert not supervised.paths.launcher_log.exists()
    assert supervised.attempt.ended_at is None  # the agent ends it


def test_a_cancel_ends_ranks_that_ignore_signals_and_hidden_processes(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    hidden = supervised.hidden_pid()
    assert hidden not in pids_with_mark(supervised.mark)
    cancelled_at = time.monotonic()
    supervised.ask(store.request_cancel)
    assert supervised.wait_for_end() is EndReason.CANCELLED
    assert time.monotonic() - cancelled_at < 5 * slowdown()
    assert ProcessId.of(hidden) is None


def preempt(session: Session, job_id: str) -> None:
    attempt_id = session.scalars(select(Attempt.id).where(Attempt.job_id == job_id)).one()
    placing.request_preemption(session, [attempt_id], PreemptionCause.for_job("x"))


@pytest.mark.parametrize(
    ("ask", "reason", "error", "status"),
    [
        (store.pause, EndReason.PAUSED, None, Status.QUEUED),
        (partial(store.request_cancel, saves=True), EndReason.CANCELLED, None, Status.CANCELLED),
        (preempt, EndReason.PREEMPTED, "to make room for job x", Status.QUEUED),
    ],
    ids=["pause", "cancel that saves", "preemption"],
)
def test_a_stop_waits_until_the_ranks_have_saved(
    run: Run, ask: Callable[[Session, str], object], reason: EndReason, error: str | None, status: Status
) -> None:
    supervised = run(save_s=1)
    supervised.wait_for_steps()
    supervised.ask(ask)
    assert supervised.wait_for_end() is reason
    assert supervised.attempt.error == error
    assert (supervised.paths.root / "saved").exists()
    job = supervised.job
    assert (job.status, job.restarts) == (status, 0)
    assert status is Status.CANCELLED or job.not_before <= job.queued_at


def test_what_an_earlier_attempt_left_is_stored_by_the_next_one(run: Run, sessions: Sessions) -> None:
    before = run()
    before.wait_for_steps()
    before.ask(preempt)
    before.wait_for_end()
    step = (before.paths.records / "rank-0.jsonl").read_text().splitlines()[1]
    with (before.paths.records / "rank-0.jsonl").open("a") as records:
        records.write(json.dumps(json.loads(step) | {"step": 10**6}) + "\n")  # as if its supervisor had died
    run("brief", again=before.lease.job_id).wait_for_end()
    with sessions() as session:
        assert last_steps(session, before.lease.job_id, 1)[0, "loss"] == 10**6


def test_an_error_of_the_database_is_told_without_its_statement(run: Run) -> None:
    supervised = run()
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        session.execute(text("ALTER TABLE metric_blocks RENAME TO blocks_of_another_schema"))
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    said = 'the supervisor failed: UndefinedTable: relation "metric_blocks" does not exist'
    assert supervised.attempt.error == said


def test_a_removed_run_folder_ends_the_job_with_a_sentence(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    supervised.hidden_pid()  # the rank makes no more files
    shutil.rmtree(supervised.paths.job_dir)
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    said = "the folder of the job on host ha was removed while it ran"
    assert (supervised.job.error, supervised.attempt.error) == (said, said)


def test_a_cancel_cuts_short_the_saving_before_it(run: Run) -> None:
    supervised = run(save_s=60)
    supervised.wait_for_steps()
    supervised.ask(partial(store.request_cancel, saves=True))
    until(supervised.paths.stop_file.exists)
    supervised.ask(store.request_cancel)
    assert supervised.wait_for_end() is EndReason.CANCELLED
    assert not (supervised.paths.root / "saved").exists()
    assert supervised.job.status is Status.CANCELLED


def test_a_supervisor_terminated_while_it_starts_gives_the_job_back(run: Run) -> None:
    supervised = run()
    until((supervised.paths.logs / "rank-0.log").exists)  # it is still importing its modules
    supervised.process.signal(signal.SIGTERM)
    assert supervised.wait_for_end() is EndReason.HOST_LOST
    assert (supervised.paths.root / "saved").exists()
    assert supervised.job.status is Status.QUEUED


def test_an_attempt_with_a_stopped_rank_ends_as_stalled_and_names_the_rank(run: Run) -> None:
    stall_s = short_limit_s(1.5)
    supervised = run(stall_timeout_s=stall_s)
    supervised.wait_for_steps()
    os.kill(pids_with_mark(supervised.mark)[0], signal.SIGSTOP)
    assert supervised.wait_for_end() is EndReason.STALLED
    assert supervised.attempt.error == f"no step from any rank for {stall_s:g} s; stopped by a signal: rank 0"


def test_a_supervisor_whose_attempt_was_ended_leaves_at_once(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    job_rows.end_attempt(supervised.sessions, supervised.lease, EndReason.LEASE_EXPIRED, releases=False)
    supervised.wait_for_exit(within_s=10 * slowdown())
    assert pids_with_mark(supervised.mark) == []
    last = job_rows.kinds(supervised.sessions, supervised.lease.job_id)[-2:]
    assert last == [EventKind.ATTEMPT_ENDED, EventKind.REQUEUED]


def change(supervised: Supervised, **fields: Any) -> None:
    with supervised.sessions.begin() as session:
        job = locked_job(session, supervised.lease.job_id)
        assert job_changes.change(session, job, changes_from(fields), by=Applicant("ada"))


def test_a_limit_that_has_passed_when_it_is_set_ends_the_attempt(run: Run) -> None:
    supervised = run()
    supervised.wait_for_steps()
    change(supervised, time_limit_s=3600)
    change(supervised, time_limit_s=0.5)
    assert supervised.wait_for_end() is EndReason.TIME_LIMIT
    assert supervised.attempt.error == "still running after its time limit of 0.5 s"
    assert (supervised.job.status, supervised.job.end_reason) == (Status.FAILED, EndReason.TIME_LIMIT)


def test_an_attempt_goes_on_after_its_first_limit_if_that_was_lengthened_or_removed(run: Run) -> None:
    limit_s = short_limit_s(4)
    supervised = run(time_limit_s=limit_s)
    supervised.wait_for_steps()
    first_limit_at = time.monotonic() + limit_s  # or earlier: it counts from before the steps
    change(supervised, time_limit_s=3600)
    change(supervised, time_limit_s=None)
    until(lambda: time.monotonic() > first_limit_at, what="the first limit")
    rows = stored_rows(supervised.sessions)
    until(lambda: stored_rows(supervised.sessions) > rows, what="steps after the first limit")
    supervised.ask(store.request_cancel)
    assert supervised.wait_for_end() is EndReason.CANCELLED


@contextmanager
def unreachable(database: str) -> Iterator[None]:
    """The database refuses new connections, and open ones are closed."""
    name = database.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(database.replace(f"/{name}?", "/hora?"), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_supervisor_that_wakes_after_its_lease_writes_nothing_and_ends_its_ranks(run: Run) -> None:
    supervised = run("deaf", lease_s=short_limit_s(2))
    supervised.wait_for_steps()
    hidden = supervised.hidden_pid()
    supervised.process.signal(signal.SIGSTOP)
    expires = supervised.attempt.lease_expires_at
    with supervised.sessions() as session:
        until(lambda: session.scalar(func.now()) > expires or session.rollback())
    before = stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)
    supervised.process.signal(signal.SIGCONT)
    supervised.wait_for_exit()
    assert (stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)) == before
    assert supervised.attempt.ended_at is None  # the reaper ends it
    assert pids_with_mark(supervised.mark) == []
    assert ProcessId.of(hidden) is None


@contextmanager
def holding_the_row(database: str) -> Iterator[None]:
    """Another process has stopped in the middle of a transaction."""
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE attempts SET error = 'held'")
        yield


@contextmanager
def hanging(database: str) -> Iterator[None]:
    """The processes of the database stand still."""
    with psycopg.connect(database) as connection:
        others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        pids = [pid for (pid,) in connection.execute(others)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(("fault", "late_s"), [(unreachable, 0.0), (holding_the_row, 0.5), (hanging, 0.5)])
def test_ranks_end_before_a_lease_expires_that_the_database_does_not_renew(
    run: Run, database: str, fault: Callable[[str], AbstractContextManager[None]], late_s: float
) -> None:
    lease_s = short_limit_s(3)
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with fault(database):
        until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s + late_s, what="the end of the ranks")
        supervised.wait_for_exit()
    assert supervised.attempt.ended_at is None


def test_a_supervisor_without_a_database_for_less_than_its_lease_continues(run: Run, database: str) -> None:
    supervised = run(lease_s=short_limit_s(10))
    supervised.wait_for_steps()
    with unreachable(database):
        time.sleep(1)
        assert supervised.process.is_alive
    rows_before = stored_rows(supervised.sessions)
    until(lambda: stored_rows(supervised.sessions) > rows_before)
    supervised.ask(store.request_cancel)
    assert supervised.wait_for_end() is EndReason.CANCELLED
