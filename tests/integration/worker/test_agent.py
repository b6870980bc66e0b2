"""The agent keeps the rows and the processes of its host in step."""

import os
import signal
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import delete, func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, LogLine
from jobs.intake.intake import Intake
from jobs.model.records import RankExited, RankStarted, UnexplainedExit
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.processes import ProcessId, mark_of
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import (
    MakeAgent,
    claimed,
    claimed_elsewhere,
    dead_process,
    files_of,
    live_process,
    set_supervisor,
    supervised_by,
)
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.agent import Agent
from worker.attempt.launcher import Launcher
from worker.attempt.paths import paths_of
from worker.attempt.processes import pids_with_mark, sweep


def test_slots_are_registered_and_retired_with_the_hardware(sessions: Sessions, make_agent: MakeAgent) -> None:
    make_agent(slots=3).reconcile()
    assert [(slot.kind, slot.retired_at) for slot in job_rows.the_slots(sessions)] == [("cpu", None)] * 3
    lease = claimed(sessions, job_rows.an_attempt(sessions, job_rows.a_job(sessions), slots=[1, 2]))
    make_agent(slots=2).reconcile()  # started again with one slot less
    slots = job_rows.the_slots(sessions)
    assert [slot.retired_at is None for slot in slots] == [True, True, False]
    assert job_rows.holders(sessions) == [None, lease.attempt_id, lease.attempt_id]
    make_agent(slots=3).reconcile()
    assert [slot.retired_at for slot in job_rows.the_slots(sessions)] == [None] * 3


def test_a_heartbeat_is_sent_when_due_and_a_forgotten_host_registers_anew(sessions: Sessions, agent: Agent) -> None:
    agent.reconcile()
    job_rows.host_went_silent(sessions)
    agent.reconcile()
    with sessions.begin() as session:
        age = session.query(func.now() - Host.heartbeat_at).scalar()
        session.execute(delete(Host))
    assert age < timedelta(seconds=60)
    agent.reconcile()
    assert len(job_rows.the_slots(sessions)) == 2


def test_an_attempt_whose_supervisor_died_is_ended_after_its_processes(
    sessions: Sessions, settings: Settings, agent: Agent, start: Start
) -> None:
    lease = supervised_by(sessions, dead_process())
    log = files_of(settings, lease).logs / "rank-0.log"
    rank = start(
        f"trap '' TERM; while sleep 0.005; do echo on; done >> {log}", HORA_ATTEMPT=mark_of(lease.job_id, lease.number)
    )
    until(lambda: log.exists() and log.stat().st_size)
    agent.reconcile()
    assert rank.wait(120) == -signal.SIGKILL
    attempt, job = job_rows.the_attempt(sessions, lease), job_rows.the_job(sessions, lease.job_id)
    assert (attempt.end_reason, job.status, job.restarts) == (EndReason.LEASE_EXPIRED, Status.LAUNCHING, 0)
    assert job.attempt == 2  # and placed again in the same pass, on the slots that are free now
    assert job_rows.count(sessions, LogLine) == len(log.read_text().splitlines())  # nothing was written after the end


@pytest.mark.parametrize(
    ("exits", "already_stored", "reason", "restarts"),
    [
        ([], False, EndReason.LAUNCH_FAILED, 1),  # no rank started
        ([EndReason.COMPLETED, EndReason.COMPLETED], False, EndReason.COMPLETED, 0),
        ([UnexplainedExit.PEER_LOST, EndReason.OUT_OF_MEMORY], True, EndReason.OUT_OF_MEMORY, 0),
        ([EndReason.COMPLETED, None], False, EndReason.LEASE_EXPIRED, 0),
    ],
)
def test_the_records_of_ranks_decide_the_end_without_their_supervisor(
    sessions: Sessions,
    settings: Settings,
    agent: Agent,
    exits: list[EndReason | UnexplainedExit | None],
    already_stored: bool,
    reason: EndReason,
    restarts: int,
) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    set_supervisor(sessions, lease, dead_process())
    records: dict[int, list[RankStarted | RankExited]] = {}
    for rank, exit_reason in enumerate(exits):
        records[rank] = [RankStarted(at=1.0, rank=rank, local_rank=rank, host="ha", pid=1)]
        records[rank] += [RankExited(at=2.0, reason=exit_reason)] if exit_reason is not None else []
    paths = files_of(settings, lease, records)
    if already_stored:  # and the supervisor died before it wrote the end
        Intake(sessions, lease, paths, ranks=2).drain()
    agent.reconcile()
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.end_reason, attempt.started_at is not None) == (reason, bool(exits))
    assert (EventKind.RANK_STARTED in job_rows.kinds(sessions, lease.job_id)) == bool(exits)
    assert job_rows.the_job(sessions, lease.job_id).restarts == restarts
    assert lease.attempt_id not in job_rows.holders(sessions)


def test_records_of_an_earlier_attempt_are_stored_too(sessions: Sessions, settings: Settings, agent: Agent) -> None:
    """Both lost their supervisors. The later one continued from a checkpoint that the earlier one had not stored."""
    lease = job_rows.a_running_attempt(sessions)
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED)
    (files_of(settings, lease).logs / "rank-0.log").write_text("an epoch\n")
    later = claimed(sessions, job_rows.an_attempt(sessions, lease.job_id))
    set_supervisor(sessions, later, dead_process())
    agent.reconcile()
    assert job_rows.the_attempt(sessions, later).ended_at is not None
    assert job_rows.count(sessions, LogLine) == 1


def test_a_supervisor_that_lives_is_left_alone_and_so_is_a_process_that_has_its_pid_later(
    sessions: Sessions, agent: Agent, start: Start
) -> None:
    process = live_process(start("exec sleep 60").pid)
    lease = supervised_by(sessions, process)
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None
    set_supervisor(sessions, lease, ProcessId(process.pid, process.started - 100))
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.LEASE_EXPIRED


def test_slots_of_processes_that_do_not_die_are_quarantined(sessions: Sessions, agent: Agent, start: Start) -> None:
    """Stands in for processes stuck in the kernel, which SIGKILL does not end: each shell restarts its killed child."""
    lease = job_rows.a_running_attempt(sessions)
    mark = mark_of(lease.job_id, lease.number)
    undying = [
        start(f"while true; do HORA_ATTEMPT={mark} sleep 60; done", HORA_ATTEMPT="of-nobody.1") for _ in range(6)
    ]
    until(lambda: len(pids_with_mark(mark)) == 6)
    job_rows.end_attempt(sessions, lease, EndReason.CANCELLED, releases=False)
    waiting = job_rows.a_job(sessions)
    agent.reconcile()
    assert all(slot.quarantined_at for slot in job_rows.the_slots(sessions))
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    assert job_rows.the_job(sessions, waiting).status is Status.QUEUED
    for process in undying:
        process.kill()
        process.wait(120)
    agent.reconcile()
    assert job_rows.the_job(sessions, waiting).status is Status.LAUNCHING


def test_an_attempt_that_nobody_claimed_starts(sessions: Sessions, settings: Settings, make_agent: MakeAgent) -> None:
    launcher = Launcher(sessions, settings)
    for host in ("ha", "hb"):
        job_rows.a_host(sessions, host)
    lease, elsewhere = (job_rows.an_attempt(sessions, job_rows.a_job(sessions), host=host) for host in ("ha", "hb"))
    make_agent(launcher=launcher).reconcile()
    attempt = job_rows.the_attempt(sessions, lease)
    assert attempt.claimed_at is not None
    assert attempt.supervisor_pid is not None
    assert paths_of(settings.runs_dir, lease.job_id, 1).launch_dir.is_dir()
    assert job_rows.the_attempt(sessions, elsewhere).claimed_at is None
    mark = mark_of(lease.job_id, lease.number)
    until(lambda: pids_with_mark(mark), what="horovodrun")  # from here on no other host starts one
    os.kill(attempt.supervisor_pid, signal.SIGKILL)
    until(lambda: ProcessId.of(attempt.supervisor_pid or 0) is None)
    assert sweep(mark)
    launcher.reap()


def test_a_job_of_a_lost_host_goes_on_elsewhere(sessions: Sessions, agent: Agent, make_agent: MakeAgent) -> None:
    lease = claimed_elsewhere(sessions)
    job_rows.expire_lease(sessions, lease)
    job_rows.host_went_silent(sessions, "hb")
    agent.reconcile()
    assert job_rows.the_attempt(sessions, lease).ended_at is None, "it has just come into contact, as hb may have"
    make_agent(lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.HOST_LOST
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, job.attempt, job.restarts, job.losses) == (Status.LAUNCHING, 2, 0, 1)
    assert None not in job_rows.holders(sessions, "ha")
    assert job_rows.holders(sessions, "hb") == [lease.attempt_id] * 2  # until its own agent is back


def test_an_unclaimed_attempt_costs_a_restart(sessions: Sessions, settings: Settings, make_agent: MakeAgent) -> None:
    job_rows.a_host(sessions, "hb")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    with sessions.begin() as session:
        placed = func.now() - timedelta(seconds=settings.claim_timeout_s + 1)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=placed))
    make_agent(lease_s=1e-9).reconcile()
    assert job_rows.the_attempt(sessions, lease).end_reason is EndReason.LAUNCH_FAILED
    assert job_rows.the_job(sessions, lease.job_id).restarts == 1


def test_attempts_are_launched_side_by_side_and_one_that_fails_stops_no_other(
    sessions: Sessions, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    launched: list[int] = []
    both_begin = Barrier(2)

    class MeetingLauncher(Launcher):
        def launch(self, attempt_id: int) -> bool:
            both_begin.wait(120)
            if attempt_id == 1:
                raise RuntimeError("no process")
            launched.append(attempt_id)
            return True

    launcher = MeetingLauncher(sessions, settings)
    launcher.launch_soon(1)
    launcher.launch_soon(2)
    until(lambda: launched == [2] and "attempt 1 could not be launched" in caplog.text)
    launcher.close()
    launcher.launch_soon(3)  # its worker ends: nothing happens
    assert launched == [2]


def test_a_launch_that_was_cancelled_meanwhile_starts_nothing(sessions: Sessions, settings: Settings) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    job_rows.cancel(sessions, lease.job_id)
    assert not Launcher(sessions, settings).launch(lease.attempt_id)
    assert job_rows.the_job(sessions, lease.job_id).status is Status.CANCELLED
    assert job_rows.holders(sessions) == [None, None]
    assert not settings.runs_dir.exists()
