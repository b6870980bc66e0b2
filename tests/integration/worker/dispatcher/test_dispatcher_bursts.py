"""Bursts with real rows: which submissions belong together, and when the waiting jobs of one are raised."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.model.bursts import GAP_S
from jobs.model.states import EndReason
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import began, live_leases
from worker.dispatcher import Dispatcher

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
def test_a_burst_is_of_one_user_and_one_number_of_gpus_without_a_gap(
    sessions: Sessions, others: dict[str, Any]
) -> None:
    first = job_rows.a_job(sessions, gpus=1)
    submitted(sessions, first, ago_s=others.pop("ago_s", GAP_S - 30))
    second = job_rows.a_job(sessions, **{"gpus": 1, **others})
    third = job_rows.a_job(sessions, **{"gpus": 1, **others})
    found = bursts(sessions)
    assert (found[first], found[second], found[third]) == (first, second, second)


def test_jobs_of_a_study_are_in_no_burst(sessions: Sessions) -> None:
    job_rows.a_study(sessions)
    assert set(bursts(sessions).values()) == {None}


def test_waiting_jobs_are_raised_when_three_of_their_burst_have_run_for_long(
    sessions: Sessions, dispatcher: Dispatcher
) -> None:
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
