"""Who passes a blocked job, who makes room for it, where a restarted job goes, and what raises a burst."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job
from jobs.lifecycle.store import pause, request_cancel
from jobs.model.bursts import GAP_S
from jobs.model.states import EndReason
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, began, live_leases, placed_jobs
from worker.dispatcher import Dispatcher


def test_a_blocked_job_is_passed_only_by_jobs_that_end_in_time(sessions: Sessions, dispatcher: Dispatcher) -> None:
    """One that does not makes room for it."""
    job_rows.a_host(sessions, slots=4)
    busy = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, time_limit_s=1000), slots=[0])
    large = job_rows.a_job(sessions, gpus=4)
    unknown, long, short = (job_rows.a_job(sessions, gpus=1, time_limit_s=limit_s) for limit_s in (None, 2000, 500))
    assert dispatcher.run() == 1
    passing = live_leases(sessions)[1]
    assert passing.job_id == short
    due_at = job_rows.the_attempt(sessions, passing).due_at
    assert due_at is not None
    assert 900 < (due_at - job_rows.the_attempt(sessions, passing).created_at).total_seconds() <= 1000
    assert job_rows.reservations(sessions) == {"ha": large}
    job_rows.end_attempt(sessions, busy, EndReason.CANCELLED)  # so nobody knows how long such a job runs
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, passing).preempted_for is None
    with sessions.begin() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Attempt).where(Attempt.id == passing.attempt_id).values(due_at=past))
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, passing).preempted_for == f"job {large}"
    job_rows.end_attempt(sessions, passing, EndReason.CANCELLED)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [large]
    assert job_rows.reservations(sessions) == {"ha": unknown}
    job_rows.end_attempt(sessions, live_leases(sessions)[0])
    assert dispatcher.run() == 2
    assert placed_jobs(sessions) == [unknown, long]
    assert job_rows.reservations(sessions) == {"ha": None}


def test_a_huge_time_limit_of_an_old_job_does_not_break_a_pass(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=2)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    job_rows.a_job(sessions, gpus=2)
    short = job_rows.a_job(sessions, gpus=1, time_limit_s=500)
    with sessions.begin() as session:
        endless = Job.spec.concat({"time_limit_s": 1e300})
        session.execute(update(Job).where(Job.id != short).values(spec=endless))
    assert dispatcher.run() == 1
    assert short in placed_jobs(sessions)
    assert job_rows.the_attempt(sessions, live_leases(sessions)[1]).due_at is not None


def test_the_expected_time_comes_from_comparable_past_jobs(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=2)
    for took_s in (20, 30):
        job_rows.add_past_run(sessions, took_s=took_s, gpus=1, epochs=3)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, time_limit_s=60), slots=[0])
    job_rows.a_job(sessions, gpus=2)
    job_rows.a_job(sessions, gpus=1, epochs=4)
    like_those = job_rows.a_job(sessions, gpus=1, epochs=3)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions)[1:] == [like_those]


@pytest.mark.parametrize("state", ["paused", "being cancelled"])
def test_a_job_waits_for_an_attempt_that_leaves(sessions: Sessions, dispatcher: Dispatcher, state: str) -> None:
    job_rows.a_host(sessions, slots=4)
    leaving = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=2, priority=90), slots=[0, 1])
    low = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=2, priority=10), slots=[2, 3])
    urgent = job_rows.a_job(sessions, gpus=2)
    with sessions.begin() as session:
        (pause if state == "paused" else request_cancel)(session, leaving.job_id)
    assert dispatcher.run() == 0
    assert job_rows.the_attempt(sessions, low).preempt_requested_at is None
    job_rows.end_attempt(sessions, leaving, EndReason.PAUSED)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [low.job_id, urgent]


def test_a_restart_after_a_lost_host_uses_fewer_gpus(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, "large", slots=4)
    job_rows.a_host(sessions, "small", slots=3)
    job_id = job_rows.a_job(sessions, gpus=4, min_gpus=1, batch_size=24, accumulate=3, batch_per="global")
    dispatcher = make_dispatcher(host_timeout_s=30.0)
    job_rows.host_went_silent(sessions, "large", for_s=31)
    assert dispatcher.run() == 0  # it starts with all that it asks for
    job_rows.host_went_silent(sessions, "large", for_s=0)
    assert dispatcher.run() == 1
    (first,) = live_leases(sessions)
    job_rows.host_went_silent(sessions, "large", for_s=31)
    job_rows.end_attempt(sessions, first, EndReason.HOST_LOST, releases=False)
    assert dispatcher.run() == 1
    (second,) = live_leases(sessions)
    assert job_rows.holders(sessions, "small") == [second.attempt_id, second.attempt_id, None]  # 3 do not divide 8
    assert job_rows.the_attempt(sessions, second).gpus == 2
    assert job_rows.the_job(sessions, job_id).gpus == 4


def test_a_restart_goes_to_its_last_host(sessions: Sessions, dispatcher: Dispatcher) -> None:
    for name in ("ha", "hb", "hc"):
        job_rows.a_host(sessions, name)
    first = job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    job_rows.end_attempt(sessions, first, EndReason.RANK_FAILED)
    assert dispatcher.run() == 1
    assert job_rows.the_attempt(sessions, live_leases(sessions)[0]).host == "hb"


LONG_S, SHORT_S = 2000.0, 30.0  # above half a slot-hour, and below


def submitted(sessions: Sessions, job_id: str, *, ago_s: float) -> None:
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(created_at=func.now() - timedelta(seconds=ago_s)))


def ran(sessions: Sessions, *job_ids: str, held_s: float = LONG_S, reason: EndReason = EndReason.COMPLETED) -> None:
    """Let an attempt of each job run on a slot of its own for so long, and then end."""
    attempts = [job_rows.an_attempt(sessions, job_id, slots=[slot]) for slot, job_id in enumerate(job_ids)]
    for lease in attempts:
        began(sessions, lease, ago_s=held_s)
    for lease in attempts:
        job_rows.end_attempt(sessions, lease, reason)


def levels(sessions: Sessions, *job_ids: str) -> list[int]:
    return [job_rows.the_job(sessions, job_id).level for job_id in job_ids]


def bursts(sessions: Sessions) -> dict[str, str | None]:
    with sessions() as session:
        return {job.id: job.burst for job in session.scalars(select(Job))}


@pytest.mark.parametrize(
    "others", [{"gpus": 2}, {"owner": "ben"}, {"ago_s": GAP_S + 1}], ids=["other GPUs", "another user", "later"]
)
def test_a_burst_is_of_one_user_and_number_of_gpus_without_a_gap(sessions: Sessions, others: dict[str, Any]) -> None:
    first = job_rows.a_job(sessions, gpus=1)
    submitted(sessions, first, ago_s=others.pop("ago_s", GAP_S - 30))
    second = job_rows.a_job(sessions, **{"gpus": 1, **others})
    third = job_rows.a_job(sessions, **{"gpus": 1, **others})
    found = bursts(sessions)
    assert (found[first], found[second], found[third]) == (first, second, second)


def test_jobs_of_a_study_are_in_no_burst(sessions: Sessions) -> None:
    job_rows.a_study(sessions)
    assert set(bursts(sessions).values()) == {None}


def test_waiting_jobs_are_raised_when_three_of_their_burst_ran_long(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=3)
    job_ids = [job_rows.a_job(sessions, gpus=1) for _ in range(5)]
    dispatcher.run()
    running = live_leases(sessions)
    assert len(running) == 3
    for lease in running[:2]:
        began(sessions, lease, ago_s=LONG_S)
    dispatcher.run()
    assert levels(sessions, *job_ids[3:]) == [0, 0]
    began(sessions, running[2], ago_s=LONG_S)
    dispatcher.run()
    assert levels(sessions, *job_ids) == [1] * 5
    late = job_rows.a_job(sessions, gpus=1)
    assert (bursts(sessions)[late], levels(sessions, late)) == (job_ids[0], [1])


@pytest.mark.parametrize(("short", "level"), [(1, 1), (2, 0)])
def test_the_ends_of_jobs_count(sessions: Sessions, short: int, level: int) -> None:
    job_rows.a_host(sessions, slots=8)
    *jobs, waiting = [job_rows.a_job(sessions, gpus=1, epochs=1 + number) for number in range(4 + short)]
    ran(sessions, *jobs[:short], held_s=SHORT_S)
    ran(sessions, *jobs[short:])
    assert levels(sessions, waiting) == [level]


def test_what_never_ran_says_nothing(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=8)
    *jobs, cancelled, waiting = [job_rows.a_job(sessions, gpus=1) for _ in range(5)]
    job_rows.cancel(sessions, cancelled)
    ran(sessions, *jobs, reason=EndReason.PREEMPTED)  # it goes back to the queue, and has run for long all the same
    assert levels(sessions, waiting, cancelled) == [1, 0]


def test_a_job_of_which_shorter_runs_are_known_is_not_raised(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=8)
    alike = job_rows.a_job(sessions, gpus=1, epochs=2)
    ran(sessions, alike, held_s=1)
    submitted(sessions, alike, ago_s=GAP_S + 1)
    *jobs, like_it, unknown = [job_rows.a_job(sessions, gpus=1, epochs=3 + number) for number in range(5)]
    with sessions.begin() as session:
        key = select(Job.run_key).where(Job.id == alike).scalar_subquery()
        session.execute(update(Job).where(Job.id == like_it).values(run_key=key))
    ran(sessions, *jobs)
    assert levels(sessions, like_it, unknown) == [0, 1]
