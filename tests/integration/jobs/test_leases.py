"""The life of an attempt and of the slots it holds, what follows from its end, and the one writer of a status."""

import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, RunTime, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, StaleTransition, pause, request_cancel, transition
from jobs.model.preemption import PreemptionCause
from jobs.model.states import NEXT, EndReason, EventKind, Status
from jobs.runtime.processes import ProcessId
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write


def test_a_placement_launches_the_job_and_leases_shares_of_several_hosts_in_the_order_of_the_ranks(
    sessions: Sessions,
) -> None:
    for name in ("ha", "hb"):
        job_rows.a_host(sessions, name, slots=3)
    job_id = job_rows.a_job(sessions, gpus=4)
    both = Placement(job_id, (Share("hb", (2, 0), ("A100", "H100")), Share("ha", (0, 1), ("cpu", "cpu"))), due_s=60.0)
    (lease,) = write(sessions, placing.place, [both], lease_s=60)
    job, attempt = job_rows.the_job(sessions, job_id), job_rows.the_attempt(sessions, lease)
    assert (job.status, job.attempt, job.not_before) == (Status.LAUNCHING, 1, None)
    assert (attempt.number, attempt.host, attempt.gpus, str(attempt.token)) == (1, "hb", 4, lease.token)
    assert (attempt.claimed_at, attempt.ended_at) == (None, None)
    assert attempt.shares == [
        {"host": "hb", "slots": [2, 0], "devices": ["A100", "H100"]},
        {"host": "ha", "slots": [0, 1], "devices": ["cpu", "cpu"]},
    ]
    assert (attempt.due_at - attempt.created_at).total_seconds() == 60
    assert [slot.rank for slot in job_rows.the_slots(sessions, "hb")] == [1, None, 0]
    assert [slot.rank for slot in job_rows.the_slots(sessions, "ha")] == [2, 3, None]
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2 + [None]
    assert job_rows.kinds(sessions, job_id)[-1] is EventKind.PLACED


def test_only_the_possible_ones_of_several_placements_are_made(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=8)
    held_lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[7])
    jobs = [job_rows.a_job(sessions) for _ in range(5)]
    with sessions.begin() as session:
        request_cancel(session, jobs[1])
        pause(session, jobs[2])
    # free; of a cancelled job; of a paused one; taken by the first; one held
    slots = [(0, 1), (2, 3), (4, 5), (1, 2), (6, 7)]
    placements = [Placement(job_id, (Share("ha", of),)) for job_id, of in zip(jobs, slots, strict=True)]
    (lease,) = write(sessions, placing.place, placements, lease_s=60)
    assert lease.job_id == jobs[0]
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2 + [None] * 5 + [held_lease.attempt_id]
    assert job_rows.count(sessions, Attempt) == 2


TAKEN = {
    "quarantined_at": func.now(),
    "retired_at": func.now(),
    "unhealthy": "it is off the bus",
    "in_use_by_others": True,
}


@pytest.mark.parametrize("obstacle", ["leased", "unknown", "drained", *TAKEN])
def test_a_placement_on_a_slot_that_is_not_free_changes_nothing(sessions: Sessions, obstacle: str) -> None:
    job_rows.a_host(sessions, slots=2 if obstacle == "unknown" else 3)
    if obstacle == "leased":
        job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2])
    elif obstacle == "drained":
        job_rows.drain_host(sessions, "ha")
    elif obstacle in TAKEN:
        change(sessions, update(Slot).where(Slot.index == 2).values({obstacle: TAKEN[obstacle]}))
    job_id = job_rows.a_job(sessions)
    before = job_rows.count(sessions, Attempt), job_rows.holders(sessions)
    with pytest.raises(job_rows.NotPlaced):
        job_rows.an_attempt(sessions, job_id, slots=[1, 2])
    job = job_rows.the_job(sessions, job_id)
    assert (job.status, job.attempt, job.revision) == (Status.QUEUED, 0, 1)
    assert (job_rows.count(sessions, Attempt), job_rows.holders(sessions)) == before
    assert job_rows.kinds(sessions, job_id) == [EventKind.SUBMITTED]


def test_an_attempt_is_asked_once_to_make_room(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    for job_id in ("a", "b"):
        write(sessions, placing.request_preemption, [lease.attempt_id], PreemptionCause.for_job(job_id))
    with sessions() as session:
        assert leases.stop_requests(session, lease).preemption == PreemptionCause.for_job("a")
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.PREEMPT_REQUESTED) == 1


def test_an_attempt_is_claimed_once_and_a_claim_and_a_renewal_move_the_end_of_its_lease(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    ends = [job_rows.the_attempt(sessions, lease).lease_expires_at]
    with sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=1000) == lease
        assert leases.claim(session, lease.attempt_id, lease_s=60) is None
        assert leases.claim(session, lease.attempt_id + 1, lease_s=60) is None
    ends.append(job_rows.the_attempt(sessions, lease).lease_expires_at)
    write(sessions, leases.renew, lease, lease_s=2000)
    ends.append(job_rows.the_attempt(sessions, lease).lease_expires_at)
    assert [900 < (later - earlier).total_seconds() < 1100 for earlier, later in pairwise(ends)] == [True, True]
    job_rows.a_host(sessions, "hb")
    never_claimed = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    with sessions.begin() as session:
        leases.end(session, never_claimed, EndReason.LAUNCH_FAILED)
        assert leases.claim(session, never_claimed.attempt_id, lease_s=60) is None


def test_the_supervisor_of_an_attempt_is_recorded_with_the_software_of_each_host(sessions: Sessions) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    [share] = job_rows.the_attempt(sessions, lease).shares
    info = {"versions": {"hora": "1.2"}, "python": "3.11.2", "system": "Linux"}
    with sessions.begin() as session:
        session.execute(update(Host).where(Host.name == share["host"]).values(info=info))
        shares = [{"host": "gone", "slots": [1], "devices": ["cpu"]}, share]
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(shares=shares))
        leases.record_supervisor(session, lease, ProcessId(42, 15))
    attempt = job_rows.the_attempt(sessions, lease)
    assert (attempt.supervisor_pid, attempt.supervisor_start_ticks) == (42, 15)
    software = {"hora": "1.2", "python": "3.11.2", "system": "Linux"}
    assert attempt.shares == [shares[0], share | {"software": software}]
    assert job_rows.kinds(sessions, lease.job_id)[-1] is EventKind.LAUNCHED


def all_columns(row: Attempt | Job) -> dict[str, object]:
    return {column.name: getattr(row, column.key) for column in row.__table__.columns}


@pytest.mark.parametrize("stale", ["ended", "token", "attempt"])
def test_a_writer_without_the_lease_is_refused(sessions: Sessions, stale: str) -> None:
    lease = job_rows.a_claimed_attempt(sessions)
    job_rows.a_host(sessions, "hb")
    other = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    good = lease
    if stale == "ended":
        job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED)
        good = job_rows.an_attempt(sessions, lease.job_id)  # the job is launching again
    else:
        wrong = {"token": str(uuid4())} if stale == "token" else {"attempt_id": other.attempt_id}
        lease = dataclasses.replace(lease, **wrong)

    def state() -> list[object]:
        rows = [job_rows.the_job(sessions, lease.job_id), job_rows.the_attempt(sessions, lease)]
        return [job_rows.kinds(sessions, lease.job_id), *map(all_columns, rows)]

    before = state()
    with sessions() as session:
        for writes in (
            lambda: leases.renew(session, lease, lease_s=1),
            lambda: leases.stop_requests(session, lease),
            lambda: leases.fence(session, lease),
            lambda: leases.fence_expired(session, lease),
            lambda: leases.end(session, lease, EndReason.COMPLETED),
            lambda: transition(session, lease.job_id, Status.RUNNING, lease=lease),
            lambda: transition(session, lease.job_id, Status.RUNNING, lease=other),  # good, but of another job
            lambda: transition(session, "nothere", Status.LAUNCHING),
        ):
            with pytest.raises((StaleLease, StaleTransition)):
                writes()
        leases.record_supervisor(session, lease, ProcessId(43, 16))  # it raises nothing, and writes nothing
        session.commit()
    assert state() == before
    write(sessions, transition, good.job_id, Status.RUNNING, lease=good)


@pytest.mark.parametrize("at", Status)
def test_only_the_transitions_of_the_table_are_made(sessions: Sessions, at: Status) -> None:
    for to in Status:
        job_id = job_rows.a_job_that_is(sessions, at)
        before = job_rows.the_job(sessions, job_id)
        with sessions.begin() as session:
            if to in NEXT[at]:
                transition(session, job_id, to)
            else:
                with pytest.raises(StaleTransition):
                    transition(session, job_id, to, error="must not be seen")
        after = job_rows.the_job(sessions, job_id)
        if to in NEXT[at]:
            assert (after.status, after.revision) == (to, before.revision + 1)
        else:
            assert all_columns(after) == all_columns(before)


def test_the_first_rank_starts_the_job_never_before_its_placement_and_only_once(sessions: Sessions) -> None:
    first = job_rows.a_claimed_attempt(sessions)
    write(sessions, leases.first_rank_started, first, datetime(2000, 1, 1, tzinfo=UTC))
    job, attempt = job_rows.the_job(sessions, first.job_id), job_rows.the_attempt(sessions, first)
    assert job.status is Status.RUNNING
    assert job.started_at == attempt.started_at == attempt.created_at
    job_rows.end_attempt(sessions, first, EndReason.RANK_FAILED)
    second = job_rows.an_attempt(sessions, first.job_id)
    with sessions.begin() as session:
        leases.first_rank_started(session, second, datetime.now(UTC))
        leases.resumed(session, second, 120)
    assert job_rows.the_job(sessions, first.job_id).started_at == job.started_at
    later = job_rows.the_attempt(sessions, second)
    assert (later.number, later.resumed_step) == (2, 120)
    assert later.started_at > attempt.started_at


def test_slots_are_released_only_after_the_end_and_only_those_of_the_attempt(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=3)
    lease, other = (
        job_rows.an_attempt(sessions, job_rows.a_job(sessions)),
        job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2]),
    )
    held = [lease.attempt_id] * 2 + [other.attempt_id]
    write(sessions, leases.release, lease.attempt_id)
    assert job_rows.holders(sessions) == held
    job_rows.end_attempt(sessions, lease, EndReason.COMPLETED, releases=False)
    assert job_rows.holders(sessions) == held
    write(sessions, leases.release, lease.attempt_id)
    assert [(slot.attempt_id, slot.rank) for slot in job_rows.the_slots(sessions)] == [
        (None, None), (None, None), (other.attempt_id, 0),
    ]  # fmt: skip


def test_a_quarantined_slot_is_free_again_only_by_its_release(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
        leases.quarantine(session, lease.attempt_id, host="ha")
    first = [slot.quarantined_at for slot in job_rows.the_slots(sessions)]
    write(sessions, leases.quarantine, lease.attempt_id, host="ha")
    assert None not in first
    assert [slot.quarantined_at for slot in job_rows.the_slots(sessions)] == first  # since when, not when last seen
    with pytest.raises(job_rows.NotPlaced):
        job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    write(sessions, leases.release, lease.attempt_id)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions))


def end(sessions: Sessions, lease: Lease, reason: EndReason, **values: object) -> Status:
    return write(sessions, leases.end, lease, reason, **values)  # type: ignore[arg-type]


def launch_again(sessions: Sessions, old: Lease) -> Lease:
    with sessions.begin() as session:
        leases.release(session, old.attempt_id)
        session.execute(update(Job).where(Job.id == old.job_id).values(not_before=None))
    return job_rows.an_attempt(sessions, old.job_id)


@pytest.mark.parametrize("case", ["launching", "running", "to be cancelled"])
def test_each_reason_leads_to_its_status_and_a_nul_in_an_error_is_replaced(sessions: Sessions, case: str) -> None:
    job_rows.a_host(sessions)
    for reason in EndReason:
        lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
        if case != "launching":
            write(sessions, leases.first_rank_started, lease, datetime.now(UTC))
        ended_for, error, outcome = reason, "torn\ufffdfile", reason.outcome
        if case == "to be cancelled":
            job_rows.cancel(sessions, lease.job_id)
            ended_for, error, outcome = EndReason.CANCELLED, None, EndReason.CANCELLED.outcome
        expected = Status.QUEUED if outcome.retried else outcome.status
        assert end(sessions, lease, reason, error="torn\x00file") is expected
        job, attempt = job_rows.the_job(sessions, lease.job_id), job_rows.the_attempt(sessions, lease)
        assert (job.status, attempt.end_reason, attempt.error) == (expected, ended_for, error)
        assert attempt.ended_at is not None
        assert job.restarts == (1 if outcome.counts else 0)
        is_over = expected is not Status.QUEUED
        assert (job.end_reason, job.error) == ((ended_for, error) if is_over else (None, None))
        assert (job.ended_at is not None) == is_over
        last = EventKind.ENDED if is_over else EventKind.REQUEUED
        assert job_rows.kinds(sessions, lease.job_id)[-2:] == [EventKind.ATTEMPT_ENDED, last]
        write(sessions, leases.release, lease.attempt_id)


@pytest.mark.parametrize(
    ("reason", "counted", "pauses_s"),
    [(EndReason.RANK_FAILED, 1, [100, 200, 400, 500]), (EndReason.HOST_LOST, 0, [0, 100, 200, 400, 500])],
)
def test_the_pause_before_a_restart_doubles_up_to_its_limit_and_restarts_are_limited(
    sessions: Sessions, reason: EndReason, counted: int, pauses_s: list[int]
) -> None:
    """A lost host uses no restart, and only later losses cause a pause."""
    lease = job_rows.a_claimed_attempt(sessions, max_restarts=4)
    for number, expected_s in enumerate(pauses_s, start=1):
        assert end(sessions, lease, reason, backoff_s=100, backoff_limit_s=500) is Status.QUEUED
        job = job_rows.the_job(sessions, lease.job_id)
        assert (job.restarts, job.losses) == (counted * number, (1 - counted) * number)
        assert expected_s - 30 < (job.not_before - datetime.now(UTC)).total_seconds() <= expected_s
        lease = launch_again(sessions, lease)
    assert lease.number == len(pauses_s) + 1
    if counted:
        assert end(sessions, lease, reason, error="again") is Status.FAILED
        assert job_rows.the_job(sessions, lease.job_id).error == "again"


def test_the_duration_of_a_successful_run_is_stored(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    noted: list[list[float]] = []
    for number, took_s in enumerate((10, 20, 30, 40, 50, 60, 70)):
        reason = EndReason.EARLY_STOPPED if number % 2 else EndReason.COMPLETED
        job_rows.add_past_run(sessions, took_s=took_s, gpus=1, reason=reason)
        (one,) = run_times(sessions)
        noted.append([round(duration_s / 10) * 10 for duration_s in one])
    assert noted[0] == [10]
    assert noted[-1] == [70, 60, 50, 40, 30]
    job_rows.add_past_run(sessions, took_s=100, gpus=2)
    assert len(run_times(sessions)) == 2


def test_only_uninterrupted_successful_runs_count_as_durations(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    end(sessions, lease, EndReason.RANK_FAILED)
    again = launch_again(sessions, lease)
    write(sessions, leases.resumed, again, 10)
    end(sessions, again, EndReason.COMPLETED)
    assert run_times(sessions) == []


def run_times(sessions: Sessions) -> list[list[float]]:
    with sessions() as session:
        return [one.durations_s for one in session.scalars(select(RunTime))]


def abandoned_attempts(sessions: Sessions, **limits: float) -> list[leases.AbandonedAttempt]:
    with sessions() as session:
        return leases.abandoned(session, **{"host_timeout_s": 30, "claim_timeout_s": 60} | limits)


def test_an_attempt_is_abandoned_when_its_lease_has_expired_and_it_has_not_ended(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    assert abandoned_attempts(sessions) == []
    job_rows.host_went_silent(sessions, for_s=31)
    assert abandoned_attempts(sessions) == [], "its worker may be dead and its supervisor alive"
    job_rows.expire_lease(sessions, lease)
    (found,) = abandoned_attempts(sessions)
    assert (found.lease, found.host, found.reason) == (lease, "ha", EndReason.HOST_LOST)
    job_rows.host_went_silent(sessions, for_s=0)
    (found,) = abandoned_attempts(sessions)
    assert (found.lease, found.reason) == (lease, EndReason.LEASE_EXPIRED)
    end(sessions, lease, EndReason.COMPLETED)
    job_rows.expire_lease(sessions, lease)
    assert abandoned_attempts(sessions) == []


def test_an_attempt_that_no_supervisor_claimed_is_abandoned(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    assert abandoned_attempts(sessions) == []
    with sessions.begin() as session:
        placed = func.now() - timedelta(seconds=61)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=placed))
    (found,) = abandoned_attempts(sessions)
    assert (found.lease, found.reason) == (lease, EndReason.LAUNCH_FAILED)


def test_the_reaper_ends_abandoned_attempts_but_not_renewed_ones(sessions: Sessions) -> None:
    lease = job_rows.a_running_attempt(sessions)
    job_rows.expire_lease(sessions, lease)
    with sessions.begin() as session:
        leases.fence_expired(session, lease)
        leases.renew(session, lease, lease_s=60)
        with pytest.raises(StaleLease):
            leases.fence_expired(session, lease)
