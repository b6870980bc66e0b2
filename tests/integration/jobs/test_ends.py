"""What follows from the end of an attempt, and how the reaper ends abandoned attempts."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, RunTime
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason, EventKind, Status
from tests.integration.jobs import job_rows


def end(sessions: Sessions, lease: Lease, reason: EndReason, **values: object) -> Status:
    with sessions.begin() as session:
        return leases.end(session, lease, reason, **values)  # type: ignore[arg-type]


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
            with sessions.begin() as session:
                leases.first_rank_started(session, lease, datetime.now(UTC))
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
        with sessions.begin() as session:
            leases.release(session, lease.attempt_id)


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
        assert job.not_before is not None
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
    with sessions.begin() as session:
        leases.resumed(session, again, 10)
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
