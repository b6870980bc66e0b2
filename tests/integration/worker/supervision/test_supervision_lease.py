"""A supervisor whose lease is not renewed ends all processes before it expires, and writes nothing after it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import func, text, update

from jobs.db.tables import Attempt, JobEvent
from jobs.lifecycle import store
from jobs.model.states import EndReason
from jobs.runtime.processes import ProcessId
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run, stored_rows
from tests.waiting import slowdown, until
from worker.attempt.processes import pids_with_mark


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
    supervised = run("deaf", lease_s=2 * slowdown())
    supervised.wait_for_steps()
    hidden = supervised.hidden_pid()
    supervised.process.send_signal(signal.SIGSTOP)
    expires = supervised.attempt.lease_expires_at
    with supervised.sessions() as session:
        until(lambda: session.scalar(func.now()) > expires or session.rollback())
    before = stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)
    supervised.process.send_signal(signal.SIGCONT)
    assert supervised.process.wait(120) == 1
    assert (stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)) == before
    assert supervised.attempt.ended_at is None  # the reaper ends it
    assert pids_with_mark(supervised.mark) == []
    assert ProcessId.of(hidden) is None


def test_a_supervisor_without_a_database_ends_its_ranks_before_its_lease_expires(run: Run, database: str) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with unreachable(database):
        until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s, what="the end of the ranks")
        assert supervised.process.wait(120) == 1
    assert supervised.attempt.ended_at is None


def test_a_supervisor_without_a_database_for_less_than_its_lease_continues(run: Run, database: str) -> None:
    supervised = run(lease_s=10 * slowdown())
    supervised.wait_for_steps()
    with unreachable(database):
        time.sleep(1)
        assert supervised.process.poll() is None
    rows_before = stored_rows(supervised.sessions)
    until(lambda: stored_rows(supervised.sessions) > rows_before)
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED


def test_a_locked_row_does_not_keep_the_ranks_alive(run: Run) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:  # like a process stopped in the middle of a transaction
        session.execute(update(Attempt).where(Attempt.id == supervised.lease.attempt_id).values(error="held"))
        until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s + 0.5, what="the end of the ranks")


def test_a_database_that_hangs_does_not_keep_the_ranks_alive(run: Run) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with supervised.sessions() as session:
        other_backends = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        backends = list(session.scalars(text(other_backends)))
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s + 0.5, what="the end of the ranks")
            assert supervised.process.wait(120) == 1
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)
