"""How an agent handles dead, hanging and lost parts, and that none of them blocks the others."""

import signal
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, engine_for, is_away, sessions_for
from jobs.db.tables import Attempt
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.records import RankExited, RankStarted, UnexplainedExit, rank_records_name
from jobs.model.states import EndReason, Status
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId, mark_of
from jobs.runtime.settings import Settings
from jobs.scheduling import hosts, placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of, dead_process, live_process, set_supervisor
from tests.integration.worker.conftest import Start, pid_in
from tests.waiting import slowdown, until
from worker.agent import Agent
from worker.attempt.paths import paths_of
from worker.attempt.processes import pids_of_supervisors, pids_with_mark
from worker.host_shutdown import stop_jobs_of_host


@pytest.mark.parametrize(
    ("exit_reasons", "reason", "already_stored"),
    [
        ([EndReason.COMPLETED, EndReason.COMPLETED], EndReason.COMPLETED, False),
        ([UnexplainedExit.PEER_LOST, EndReason.OUT_OF_MEMORY], EndReason.OUT_OF_MEMORY, True),
        ([EndReason.COMPLETED, None], EndReason.LEASE_EXPIRED, False),
    ],
)
def test_the_exit_records_of_ranks_decide_the_end_without_their_supervisor(
    sessions: Sessions,
    settings: Settings,
    agent: Agent,
    exit_reasons: list[EndReason | UnexplainedExit | None],
    reason: EndReason,
    already_stored: bool,
) -> None:
    lease = job_rows.a_running_attempt(sessions)
    set_supervisor(sessions, lease, dead_process())
    paths = paths_of(settings.runs_dir, lease.job_id, lease.number)
    paths.create()
    for rank, exit_reason in enumerate(exit_reasons):
        records: list[RankStarted | RankExited] = [RankStarted(at=1.0, rank=rank, local_rank=rank, host="ha", pid=1)]
        records += [RankExited(at=2.0, reason=exit_reason)] if exit_reason is not None else []
        lines = [record.model_dump_json() + "\n" for record in records]
        (paths.records / rank_records_name(rank)).write_text("".join(lines))
    if already_stored:  # and the supervisor died before it wrote the end
        Intake(sessions, lease, paths, ranks=2).drain()
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is reason


def _over_two_hosts(sessions: Sessions) -> Lease:
    """An attempt that is led by `hb` and has a slot on `ha` too."""
    job_rows.a_host(sessions, "hb", slots=1)
    job_rows.a_host(sessions, "ha", slots=1)
    shares = (Share("hb", (0,)), Share("ha", (0,)))
    job_id = job_rows.a_job(sessions)
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, shares)], lease_s=60)
    with sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
    return lease


def test_an_agent_ends_only_its_own_processes_of_an_attempt_led_elsewhere(
    sessions: Sessions, settings: Settings, hints: Hints, start: Start
) -> None:
    agent = agent_of(sessions, settings, hints, slots=1)
    lease = _over_two_hosts(sessions)
    set_supervisor(sessions, lease, dead_process())  # a process of another host looks like this from here
    mark = mark_of(lease.job_id, lease.number)
    rank = start("exec sleep 60", HORA_ATTEMPT=mark)
    until(lambda: pids_with_mark(mark))
    agent.reconcile()
    assert rank.poll() is None
    assert job_rows.the_attempt(sessions, lease).ended_at is None
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
    agent.reconcile()
    assert rank.wait(120) == -signal.SIGKILL
    assert job_rows.holders(sessions, "ha") == [None]
    assert job_rows.holders(sessions, "hb") == [lease.attempt_id]


def test_a_supervisor_of_an_ended_attempt_is_ended_with_its_processes(
    sessions: Sessions, agent: Agent, start: Start, tmp_path: Path
) -> None:
    """The supervisor was stopped past its lease. It is the parent of a process without the mark."""
    lease = job_rows.a_running_attempt(sessions)
    hidden = tmp_path / "hidden"
    supervisor = start(f"env -i setsid sh -c 'echo $$ > {hidden}; exec sleep 60' & exec sleep 60", HORA_ATTEMPT="")
    pid = pid_in(hidden)
    set_supervisor(sessions, lease, live_process(supervisor.pid))
    supervisor.send_signal(signal.SIGSTOP)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LEASE_EXPIRED)
    agent.reconcile()
    assert supervisor.wait(120) == -signal.SIGKILL
    until(lambda: ProcessId.of(pid) is None)
    assert job_rows.the_attempt(sessions, lease).ended_at is not None
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_a_stopped_supervisor_that_no_row_records_is_ended_before_its_slots_are_released(
    sessions: Sessions, settings: Settings, hints: Hints, start: Start
) -> None:
    """The worker died between the supervisor's start and its record."""
    lease = job_rows.a_running_attempt(sessions)
    mark = mark_of(lease.job_id, lease.number)
    supervisor = start("exec sleep 60", HORA_ATTEMPT="", HORA_SUPERVISED_ATTEMPT=mark)
    until(lambda: pids_of_supervisors(mark) == [supervisor.pid])
    supervisor.send_signal(signal.SIGSTOP)
    job_rows.expire_lease(sessions, lease)
    agent_of(sessions, settings, hints, lease_s=1e-9).reconcile()
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
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LEASE_EXPIRED)
    agent.reconcile()
    assert supervisor.wait(120) == -signal.SIGKILL
    assert pids_with_mark(mark) == []
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_an_attempt_with_a_stopped_supervisor_ends_by_the_records_of_its_ranks(
    sessions: Sessions, settings: Settings, hints: Hints, start: Start
) -> None:
    """The ranks ended before their lease expired."""
    lease = job_rows.a_running_attempt(sessions)
    supervisor = start("exec sleep 60", HORA_ATTEMPT="")
    set_supervisor(sessions, lease, live_process(supervisor.pid))
    supervisor.send_signal(signal.SIGSTOP)
    paths = paths_of(settings.runs_dir, lease.job_id, lease.number)
    paths.create()
    for rank in (0, 1):
        line = RankExited(at=2.0, reason=EndReason.COMPLETED).model_dump_json()
        (paths.records / rank_records_name(rank)).write_text(line + "\n")
    agent_of(sessions, settings, hints, lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None  # its lease is good
    job_rows.expire_lease(sessions, lease)
    agent_of(sessions, settings, hints, lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.COMPLETED
    assert supervisor.wait(120) == -signal.SIGKILL


def test_a_gpu_with_a_remaining_process_is_not_released(
    sessions: Sessions, settings: Settings, hints: Hints, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_rows.a_host(sessions, kind="gpu")
    agent = agent_of(sessions, settings, hints)
    agent._in_contact_since = 0.0  # registered, with GPUs that this machine does not have
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
    busy = {"ha-1"}
    monkeypatch.setattr("worker.host.gpus.is_in_use", lambda uuid: uuid in busy)
    agent.reconcile()
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    assert all(slot.quarantined_at for slot in job_rows.the_slots(sessions))
    busy.clear()
    agent.reconcile()
    assert job_rows.holders(sessions) == [None, None]


def test_a_broken_attempt_does_not_block_the_others(
    sessions: Sessions, settings: Settings, hints: Hints, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped transaction locks the first attempt's row. The second's file of records is a folder."""
    leases_of = []
    job_rows.a_host(sessions, slots=3)
    for slot in range(3):
        lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[slot])
        with sessions.begin() as session:
            leases.claim(session, lease.attempt_id, lease_s=60)
        set_supervisor(sessions, lease, dead_process())
        leases_of.append(lease)
    locked, broken, last = leases_of
    path = paths_of(settings.runs_dir, broken.job_id, broken.number).records / rank_records_name(0)
    path.mkdir(parents=True)
    engine = engine_for(database, patience_s=1.0 * slowdown())
    agent = agent_of(sessions_for(engine), settings, hints, slots=3)
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == locked.attempt_id).values(error="held"))
        agent.reconcile()
        assert job_rows.the_attempt(sessions, last).ended_at is not None
    assert caplog.text.count("could not be checked; the next pass tries again") == 2
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
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LEASE_EXPIRED)  # waits until the other's connection is closed
    with pytest.raises(DBAPIError) as lost:
        leases.fence(stopped, lease)
    assert is_away(lost.value)
    stopped.close()
    engine.dispose()


def test_a_job_of_a_lost_host_goes_on_elsewhere(sessions: Sessions, settings: Settings, hints: Hints) -> None:
    job_rows.a_host(sessions, "hb")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    with sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
    job_rows.expire_lease(sessions, lease)
    job_rows.host_went_silent(sessions, "hb")
    agent_of(sessions, settings, hints, lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.HOST_LOST
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, job.attempt, job.restarts, job.losses) == (Status.LAUNCHING, 2, 0, 1)
    assert None not in job_rows.holders(sessions, "ha")
    assert job_rows.holders(sessions, "hb") == [lease.attempt_id] * 2  # until its own agent is back


def test_a_worker_that_shuts_down_stops_the_jobs_of_its_host(
    sessions: Sessions, settings: Settings, start: Start
) -> None:
    lease = job_rows.a_running_attempt(sessions)
    supervisor = start("trap 'sleep 0.3; exit 0' TERM; while true; do sleep 0.05 & wait; done")
    set_supervisor(sessions, lease, live_process(supervisor.pid))
    assert stop_jobs_of_host(sessions, settings)
    assert supervisor.poll() == 0
    with sessions() as session:
        (host,) = hosts.hosts(session, host_timeout_s=settings.host_timeout_s, limit=9).items
    assert not host.alive


def test_a_host_that_shuts_down_preempts_attempts_led_elsewhere(
    sessions: Sessions, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host_shutdown._STORING_S", 0.1)
    lease = _over_two_hosts(sessions)
    quick = {"save_grace_s": 0.1, "sigterm_grace_s": 0.1, "sigkill_grace_s": 0.1}
    assert not stop_jobs_of_host(sessions, settings.model_copy(update=quick))
    assert job_rows.the_attempt(sessions, lease).preempted_for == f"host {settings.host} is shutting down"
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.PREEMPTED)
    assert stop_jobs_of_host(sessions, settings)
