"""The fair queue with real rows: shares, levels, and who makes room."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import AccountStanding, Attempt, Job, Project, UsageHour
from jobs.lifecycle.store import pause
from jobs.model.states import EndReason
from jobs.people import projects
from tests.integration.jobs import code_rows, job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, began, live_leases, placed_jobs, standing
from worker.dispatcher import Dispatcher


def asked(sessions: Sessions) -> dict[str, str]:
    """The jobs that are asked to make room, and for which job."""
    with sessions() as session:
        rows = session.scalars(select(Attempt).where(Attempt.preempt_requested_at.is_not(None)))
        return {row.job_id: row.preemption.job or "" for row in rows if row.preemption is not None}


def positions(sessions: Sessions, *job_ids: str) -> list[int | None]:
    return [standing(sessions, job_id).position for job_id in job_ids]


def test_two_jobs_of_one_user_are_next_after_forty_of_another(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=4)
    many = [job_rows.a_job(sessions, owner="ann", gpus=1) for _ in range(40)]
    assert dispatcher.run() == 4
    two = [job_rows.a_job(sessions, owner="ben", gpus=1) for _ in range(2)]
    assert positions(sessions, *two, many[4], many[39]) == [1, 2, 3, 38]  # before any pass knows of Ben
    assert dispatcher.run() == 0
    assert positions(sessions, *two, many[4], many[39]) == [1, 2, 3, 38]
    first, second, third, _ = live_leases(sessions)
    for lease in (first, second, third):
        job_rows.end_attempt(sessions, lease)
        assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [many[3], *two, many[4]]


def test_by_age_alone_they_are_last(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, slots=1)
    dispatcher = make_dispatcher(queue="fifo")
    many = [job_rows.a_job(sessions, owner="ann", gpus=1) for _ in range(3)]
    assert dispatcher.run() == 1
    last = job_rows.a_job(sessions, owner="ben", gpus=1)
    assert dispatcher.run() == 0
    assert positions(sessions, *many[1:], last) == [1, 2, 3]
    assert job_rows.count(sessions, AccountStanding) == 0


def test_a_new_job_takes_the_slot_of_a_long_one_after_its_quantum(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=2)
    older, newer = (job_rows.a_job(sessions, gpus=1) for _ in range(2))
    assert dispatcher.run() == 2
    for lease in live_leases(sessions):
        began(sessions, lease, ago_s=1700)
    new = job_rows.a_job(sessions, gpus=1)
    dispatcher.run()
    assert asked(sessions) == {}  # both have had less than half an hour
    for lease in live_leases(sessions):
        began(sessions, lease, ago_s=7210)
    dispatcher.run()
    assert asked(sessions) == {newer: new}
    dispatcher.run()
    assert asked(sessions) == {newer: new}
    leaving = live_leases(sessions)[1]
    job_rows.end_attempt(sessions, leaving, EndReason.PREEMPTED)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [older, new]
    with sessions() as session:
        row = session.get_one(Job, newer)
        assert (row.level, row.restarts) == (2, 0)
        assert row.slot_seconds == pytest.approx(7210, abs=60)


@pytest.mark.parametrize(
    ("of_attempt", "of_job"),
    [
        ({}, {"code": True}),  # a script that never saved
        ({}, {"progress": {"eta_s": 300.0}}),  # it ends soon
        ({"setup": {"imports": 10.0, "data": 800.0}}, {}),  # to begin again takes long
    ],
)
def test_these_attempts_are_left_undisturbed(
    sessions: Sessions, dispatcher: Dispatcher, of_attempt: dict[str, Any], of_job: dict[str, Any]
) -> None:
    job_rows.a_host(sessions, slots=1)
    job_id = job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 1
    began(sessions, live_leases(sessions)[0], ago_s=7300, **of_attempt)
    if "code" in of_job:
        of_job = {"code": code_rows.an_archive(sessions, b"code")}
    change(sessions, update(Job).where(Job.id == job_id).values({"level": 0} | of_job))
    job_rows.a_job(sessions, gpus=1)
    dispatcher.run()
    assert asked(sessions) == {}


def test_the_share_of_a_project_decides_between_projects(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=6)
    with sessions.begin() as session:
        for name in ("vision", "speech"):
            projects.create(session, name)
        session.execute(update(Project).where(Project.name == "vision").values(share=2.0))
    for name in ("speech", "vision") * 6:
        job_rows.a_job(sessions, gpus=1, project=name)
    assert dispatcher.run() == 6
    placed = [job_rows.the_job(sessions, job_id).project for job_id in placed_jobs(sessions)]
    assert sorted(placed) == ["speech"] * 2 + ["vision"] * 4


def test_usage_of_the_past_counts_less_and_less(sessions: Sessions, make_dispatcher: MakeDispatcher) -> None:
    job_rows.a_host(sessions, slots=1)
    dispatcher = make_dispatcher(queue_half_life_h=1.0)
    for owner, ago_h in (("ann", 30), ("ben", 2)):
        job_rows.a_job(sessions, owner=owner, gpus=1)
        assert dispatcher.run() == 1
        (lease,) = live_leases(sessions)
        began(sessions, lease, ago_s=3600 * (ago_h + 2))
        job_rows.end_attempt(sessions, lease)
    job_rows.a_job(sessions, owner="ben", gpus=1)
    quiet = job_rows.a_job(sessions, owner="cara", gpus=1)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [quiet]


def test_paused_jobs_of_others_take_no_share(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=1)
    for owner in ("ben", "cara", "dan"):
        write(sessions, pause, job_rows.a_job(sessions, owner=owner, gpus=1))
    for _ in range(2):
        job_rows.a_job(sessions, owner="ann", gpus=1)
    dispatcher.run()
    with sessions() as session:
        (row,) = session.scalars(select(AccountStanding))
    assert (row.user_name, row.entitled_part, row.is_over) == ("ann", 1.0, False)


def test_old_jobs_that_nothing_can_hold_do_not_block_others(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, slots=1)
    for _ in range(20):
        job_rows.a_job(sessions, gpus=64)
    long = job_rows.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        waited = {"queued_at": func.now() - timedelta(hours=13), "level": 2}
        session.execute(update(Job).values(waited))
    job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions) == [long]


@pytest.mark.parametrize("days", [-4000, 4000])
def test_a_clock_that_was_set_stops_no_pass(sessions: Sessions, make_dispatcher: MakeDispatcher, days: int) -> None:
    job_rows.a_host(sessions, slots=2)
    dispatcher = make_dispatcher(queue_half_life_h=1.0)
    for _ in range(3):
        job_rows.a_job(sessions, gpus=1)
    assert dispatcher.run() == 2
    ended, going_on = live_leases(sessions)
    began(sessions, ended, ago_s=3600)
    job_rows.end_attempt(sessions, ended)
    began(sessions, going_on, ago_s=86_400 * days)
    change(sessions, update(UsageHour).values(hour=UsageHour.hour - timedelta(days=days)))
    assert dispatcher.run() == 1


def test_what_runs_on_a_drained_host_counts_as_used(sessions: Sessions, dispatcher: Dispatcher) -> None:
    job_rows.a_host(sessions, "old", slots=4)
    for _ in range(5):
        job_rows.a_job(sessions, owner="ann", gpus=1)
    assert dispatcher.run() == 4
    for lease in live_leases(sessions):
        began(sessions, lease, ago_s=3600)
    job_rows.drain_host(sessions, "old")
    job_rows.a_host(sessions, "new", slots=1)
    few = job_rows.a_job(sessions, owner="ben", gpus=1)
    assert dispatcher.run() == 1
    assert placed_jobs(sessions)[-1] == few


def test_a_user_who_was_entitled_to_nothing_has_a_place(sessions: Sessions, dispatcher: Dispatcher) -> None:
    """Nothing of Ben's waited, and all that ran was on its way out, when the last pass looked."""
    job_rows.a_host(sessions, slots=1)
    leaving = job_rows.a_job(sessions, owner="ben", gpus=1)
    assert dispatcher.run() == 1
    job_rows.a_job(sessions, owner="ann", gpus=1)
    job_rows.cancel(sessions, leaving)
    dispatcher.run()
    with sessions() as session:
        parts = {row.user_name: row.entitled_part for row in session.scalars(select(AccountStanding))}
    assert parts == {"ann": 1.0, "ben": 0.0}
    assert positions(sessions, job_rows.a_job(sessions, owner="ben", gpus=1)) == [2]
