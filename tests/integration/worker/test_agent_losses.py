"""How an agent handles hanging and lost parts, and that none of them blocks the others.

And the database's clock is set forward or back: no attempt is given up, and no job waits for a false time.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, engine_for, is_away, sessions_for
from jobs.db.tables import Attempt
from jobs.lifecycle import leases
from jobs.model.records import RankExited, rank_records_name
from jobs.model.states import EndReason
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId, mark_of
from jobs.runtime.settings import Settings
from jobs.scheduling import hosts, registration
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from tests.integration.worker.agents import (
    MakeAgent,
    agent_of,
    claimed,
    claimed_elsewhere,
    claimed_over,
    dead_process,
    files_of,
    live_process,
    set_supervisor,
    supervised_by,
)
from tests.integration.worker.conftest import Start, pid_in
from tests.integration.worker.dispatcher.live_attempts import standing
from tests.waiting import slowdown, until
from worker.agent import Agent
from worker.attempt.paths import paths_of
from worker.attempt.processes import pids_of_supervisors, pids_with_mark
from worker.dispatcher import Dispatcher
from worker.host_shutdown import stop_jobs_of_host


def test_an_agent_ends_only_processes_of_its_own_host(sessions: Sessions, make_agent: MakeAgent, start: Start) -> None:
    agent = make_agent(slots=1)
    lease = claimed_over(sessions, "hb", "ha")
    set_supervisor(sessions, lease, dead_process())  # a process of another host looks like this from here
    mark = mark_of(lease.job_id, lease.number)
    rank = start("exec sleep 60", HORA_ATTEMPT=mark)
    until(lambda: pids_with_mark(mark))
    agent.reconcile()
    assert rank.poll() is None
    assert job_rows.the_attempt(sessions, lease).ended_at is None
    job_rows.end_attempt(sessions, lease, EndReason.CANCELLED, releases=False)
    agent.reconcile()
    assert rank.wait(120) == -signal.SIGKILL
    assert job_rows.holders(sessions, "ha") == [None]
    assert job_rows.holders(sessions, "hb") == [lease.attempt_id]


def test_a_supervisor_of_an_ended_attempt_ends(sessions: Sessions, agent: Agent, start: Start, tmp_path: Path) -> None:
    """The supervisor was stopped past its lease. It is the parent of a process without the mark."""
    hidden = tmp_path / "hidden"
    supervisor = start(f"env -i setsid sh -c 'echo $$ > {hidden}; exec sleep 60' & exec sleep 60", HORA_ATTEMPT="")
    pid = pid_in(hidden)
    lease = supervised_by(sessions, live_process(supervisor.pid))
    supervisor.send_signal(signal.SIGSTOP)
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED, releases=False)
    agent.reconcile()
    assert supervisor.wait(120) == -signal.SIGKILL
    until(lambda: ProcessId.of(pid) is None)
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_a_stopped_supervisor_that_no_row_records_is_ended_before_its_slots_are_released(
    sessions: Sessions, make_agent: MakeAgent, start: Start
) -> None:
    """The worker died between the supervisor's start and its record."""
    lease = job_rows.a_running_attempt(sessions)
    mark = mark_of(lease.job_id, lease.number)
    supervisor = start("exec sleep 60", HORA_ATTEMPT="", HORA_SUPERVISED_ATTEMPT=mark)
    until(lambda: pids_of_supervisors(mark) == [supervisor.pid])
    supervisor.send_signal(signal.SIGSTOP)
    job_rows.expire_lease(sessions, lease)
    make_agent(lease_s=1e-9).reconcile()
    assert supervisor.wait(120) == -signal.SIGKILL
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.LEASE_EXPIRED
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_a_supervisor_that_still_starts_processes_leaves_none(sessions: Sessions, agent: Agent, start: Start) -> None:
    """It continued after its lease, when another host had ended the attempt."""
    lease = job_rows.a_running_attempt(sessions)
    mark = mark_of(lease.job_id, lease.number)
    supervisor = start(f"while :; do HORA_ATTEMPT={mark} sleep 60 & sleep 0.01; done", HORA_ATTEMPT="")
    set_supervisor(sessions, lease, live_process(supervisor.pid))
    until(lambda: pids_with_mark(mark))
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED, releases=False)
    agent.reconcile()
    assert supervisor.wait(120) == -signal.SIGKILL
    assert pids_with_mark(mark) == []
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_an_attempt_with_a_stopped_supervisor_ends_by_the_records_of_its_ranks(
    sessions: Sessions, settings: Settings, make_agent: MakeAgent, start: Start
) -> None:
    """The ranks ended before their lease expired."""
    supervisor = start("exec sleep 60", HORA_ATTEMPT="")
    lease = supervised_by(sessions, live_process(supervisor.pid))
    supervisor.send_signal(signal.SIGSTOP)
    files_of(settings, lease, {rank: [RankExited(at=2.0, reason=EndReason.COMPLETED)] for rank in (0, 1)})
    make_agent(lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None  # its lease is good
    job_rows.expire_lease(sessions, lease)
    make_agent(lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.COMPLETED
    assert supervisor.wait(120) == -signal.SIGKILL


def test_a_broken_attempt_does_not_block_the_others(
    sessions: Sessions, settings: Settings, hints: Hints, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped transaction locks the first attempt's row. The second's file of records is a folder."""
    job_rows.a_host(sessions, slots=3)
    job_ids = [job_rows.a_job(sessions, gpus=1) for _ in range(3)]
    locked, broken, last = attempts = [
        claimed(sessions, job_rows.an_attempt(sessions, job_id, slots=[slot])) for slot, job_id in enumerate(job_ids)
    ]
    for lease in attempts:
        set_supervisor(sessions, lease, dead_process())
    path = paths_of(settings.runs_dir, broken.job_id, broken.number).records / rank_records_name(0)
    path.mkdir(parents=True)
    engine = engine_for(database, patience_s=5.0 * slowdown())  # limits pauses in transactions too
    agent = agent_of(sessions_for(engine), settings, hints, slots=3)
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == locked.attempt_id).values(error="held"))
        agent.reconcile()
        assert job_rows.the_attempt(sessions, last).ended_at is not None
    unchecked = [record for record in caplog.records if "the next pass tries again" in record.getMessage()]
    assert {vars(record)["job"] for record in unchecked} == {locked.job_id, broken.job_id}
    assert job_rows.the_attempt(sessions, locked).ended_at is None
    agent.reconcile()
    assert job_rows.the_attempt(sessions, locked).ended_at is not None
    assert job_rows.the_attempt(sessions, broken).ended_at is None
    engine.dispose()


def test_a_connection_stopped_in_a_transaction_is_closed_and_blocks_nobody(sessions: Sessions, database: str) -> None:
    lease = job_rows.a_running_attempt(sessions)
    engine = engine_for(database, patience_s=0.5 * slowdown())
    stopped = sessions_for(engine)()
    leases.fence(stopped, lease)
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED)  # waits until the other's connection is closed
    with pytest.raises(DBAPIError) as lost:
        leases.fence(stopped, lease)
    assert is_away(lost.value)
    stopped.close()
    engine.dispose()


def test_a_worker_that_shuts_down_stops_its_jobs(sessions: Sessions, settings: Settings, start: Start) -> None:
    supervisor = start("trap 'sleep 0.3; exit 0' TERM; while true; do sleep 0.05 & wait; done")
    supervised_by(sessions, live_process(supervisor.pid))
    assert stop_jobs_of_host(sessions, settings)
    assert supervisor.poll() == 0
    with sessions() as session:
        (host,) = hosts.hosts(session, host_timeout_s=settings.host_timeout_s, limit=9).items
    assert not host.alive


def test_a_host_that_shuts_down_preempts_attempts_led_elsewhere(
    sessions: Sessions, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host_shutdown._STORING_S", 0.1)
    lease = claimed_over(sessions, "hb", "ha")
    quick = {"save_grace_s": 0.1, "sigterm_grace_s": 0.1, "sigkill_grace_s": 0.1}
    assert not stop_jobs_of_host(sessions, settings.model_copy(update=quick))
    assert job_rows.the_attempt(sessions, lease).preempted_for == f"host {settings.host} is shutting down"
    job_rows.end_attempt(sessions, lease, EndReason.PREEMPTED, releases=False)
    assert stop_jobs_of_host(sessions, settings)


SetClock = Callable[[str], None]
# In the database of these tests `now()` is a function of the test's own, in front of PostgreSQL's.
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


@pytest.mark.parametrize("renewed", [True, False])
def test_a_lease_that_is_over_by_a_set_clock_can_still_be_renewed(
    sessions: Sessions, agent: Agent, set_clock: SetClock, renewed: bool
) -> None:
    agent.reconcile()
    lease = claimed_elsewhere(sessions)
    agent._in_contact_since = -agent._settings.lease_s  # as if it reached the database for longer than a lease
    set_clock("1 hour")
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None
    if renewed:
        write(sessions, leases.renew, lease, lease_s=60)
    agent._in_contact_since = -agent._settings.lease_s
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
    assert "after a failed attempt" in standing(sessions, lease.job_id).reason
    set_clock("0")
    beat(sessions)
    assert "after a failed attempt" not in standing(sessions, lease.job_id).reason
    assert Dispatcher(sessions, hints, settings).run() == 1


def beat(sessions: Sessions) -> None:
    write(sessions, registration.beat, "ha")


def test_a_host_that_was_lost_does_not_come_back_when_the_clock_is_set_back(
    sessions: Sessions, settings: Settings, hints: Hints, set_clock: SetClock
) -> None:
    job_rows.a_host(sessions, "ha", slots=2)
    job_rows.a_job(sessions)
    set_clock("-1 hour")
    with sessions() as session:
        assert not hosts.host(session, "ha", host_timeout_s=60).alive
    assert Dispatcher(sessions, hints, settings).run() == 0
    beat(sessions)
    assert Dispatcher(sessions, hints, settings).run() == 1
