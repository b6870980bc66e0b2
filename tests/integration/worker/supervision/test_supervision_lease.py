"""A supervisor whose lease is not renewed ends all processes before it expires, and writes nothing after it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest
from sqlalchemy import func

from jobs.db.tables import JobEvent
from jobs.lifecycle import store
from jobs.model.states import EndReason
from jobs.runtime.processes import ProcessId
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run, short_limit_s, stored_rows
from tests.waiting import until
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
