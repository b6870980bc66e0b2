"""The database's clock is set forward or back: no attempt is given up, and no job waits for a false time.

In the database of these tests `now()` is a function of the test's own, in front of PostgreSQL's.
"""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling import registration
from jobs.scheduling.hosts import host
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import claimed_elsewhere
from worker.agent import Agent
from worker.dispatcher import Dispatcher

SetClock = Callable[[str], None]
_NOW = """
CREATE TABLE test_clock AS SELECT interval '0' AS ahead;
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
  AS 'SELECT pg_catalog.now() + ahead FROM public.test_clock';
"""


@pytest.fixture
def set_clock(engine: Engine) -> SetClock:
    """Sets the clock of the test's database by an interval."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_NOW)
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
    engine.dispose()

    def set_clock(ahead: str) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE test_clock SET ahead = %s::interval", (ahead,))

    return set_clock


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """An agent that has made its first pass."""
    agent.reconcile()
    return agent


def long_in_contact(agent: Agent) -> None:
    """Let the agent think that it reaches the database for longer than a lease."""
    agent._in_contact_since = -agent._settings.lease_s


@pytest.mark.parametrize("renewed", [True, False])
def test_a_lease_that_is_over_by_a_set_clock_can_still_be_renewed(
    sessions: Sessions, agent: Agent, set_clock: SetClock, renewed: bool
) -> None:
    lease = claimed_elsewhere(sessions)
    long_in_contact(agent)
    set_clock("1 hour")
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None
    if renewed:
        with sessions.begin() as session:
            leases.renew(session, lease, lease_s=60)
    long_in_contact(agent)
    agent.reconcile()
    assert (job_rows.the_attempt(sessions, lease).ended_at is None) == renewed


def test_a_pause_before_a_restart_ends_when_the_clock_is_set_back(
    sessions: Sessions, settings: Settings, hints: Hints, set_clock: SetClock
) -> None:
    lease = job_rows.a_running_attempt(sessions)
    set_clock("1 hour")
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.RANK_FAILED, backoff_s=60, backoff_limit_s=60)
        leases.release(session, lease.attempt_id)
        registration.beat(session, "ha")
    assert Dispatcher(sessions, hints, settings).run() == 0
    assert "after a failed attempt" in reason_to_wait(sessions, lease)
    set_clock("0")
    beat(sessions)
    assert "after a failed attempt" not in reason_to_wait(sessions, lease)
    assert Dispatcher(sessions, hints, settings).run() == 1


def reason_to_wait(sessions: Sessions, lease: Lease) -> str:
    """Why the job is queued."""
    with sessions() as session:
        return standings(session, [lease.job_id], host_timeout_s=60)[lease.job_id].reason


def beat(sessions: Sessions) -> None:
    with sessions.begin() as session:
        registration.beat(session, "ha")


def test_a_host_that_was_lost_does_not_come_back_when_the_clock_is_set_back(
    sessions: Sessions, settings: Settings, hints: Hints, set_clock: SetClock
) -> None:
    job_rows.a_host(sessions, "ha", slots=2)
    job_rows.a_job(sessions)
    set_clock("-1 hour")
    with sessions() as session:
        assert not host(session, "ha", host_timeout_s=60).alive
    assert Dispatcher(sessions, hints, settings).run() == 0
    beat(sessions)
    assert Dispatcher(sessions, hints, settings).run() == 1
