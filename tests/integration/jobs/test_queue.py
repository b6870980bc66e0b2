"""Where queued jobs stand, what a cluster has no room for, and what quotas admit, read from the rows."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, ProjectUsage
from jobs.lifecycle import leases
from jobs.lifecycle.store import pause, request_cancel
from jobs.model.preemption import PreemptionCause
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.people import projects
from jobs.scheduling import placing
from jobs.scheduling.allowances import Quota
from jobs.scheduling.hosts import capacity_problem, request_of, shared_period_s
from jobs.scheduling.queue import Standing, standings
from jobs.scheduling.quotas import active_quotas, quotas_of
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write


def standings_of(sessions: Sessions, *jobs: str) -> list[Standing | None]:
    with sessions() as session:
        standings_by_job = standings(session, jobs, host_timeout_s=30.0)
    return [standings_by_job.get(job) for job in jobs]


def test_jobs_have_their_positions_in_the_queue(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    running = job_rows.an_attempt(sessions, job_rows.a_job(sessions)).job_id
    low, high, paused, cancelled, last = (
        job_rows.a_job(sessions, priority=priority) for priority in (1, 90, 50, 50, 0)
    )
    with sessions.begin() as session:
        pause(session, paused)
        request_cancel(session, cancelled)
        later = func.now() + timedelta(seconds=100)
        session.execute(update(Job).where(Job.id == last).values(not_before=later))
    reason = "needs 2 slots on one host; best host has 0 free"
    of_last, *others = standings_of(sessions, last, low, high, paused, cancelled, running, "nobody")
    assert others == [Standing(2, reason), Standing(1, reason), Standing(None, "paused"), None, None, None]
    assert (of_last.position, of_last.reason[-30:]) == (3, " s more after a failed attempt")


def test_waiting_jobs_name_the_job_that_makes_room_and_the_reservation(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=3)
    low = job_rows.an_attempt(sessions, job_rows.a_job(sessions, priority=1))
    urgent, small = job_rows.a_job(sessions, priority=90), job_rows.a_job(sessions, gpus=1)
    with sessions.begin() as session:
        placing.request_preemption(session, [low.attempt_id], PreemptionCause.for_job(urgent))
        session.execute(update(Host).values(kept_for=urgent))
    assert standings_of(sessions, urgent, small) == [
        Standing(1, f"waits for job {low.job_id} to save and make room"),
        Standing(2, f"1 slot is free, but kept for job {urgent}, which comes first"),
    ]


def test_a_restart_on_fewer_gpus_says_how_many_slots_it_needs(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=3)
    job_rows.a_host(sessions, "hb", slots=4)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=4, min_gpus=2), host="hb", slots=range(4))
    job_rows.host_went_silent(sessions, "hb")
    with sessions.begin() as session:
        leases.end(session, lease, leases.EndReason.HOST_LOST)
        session.execute(update(Job).values(not_before=None))
    assert standings_of(sessions, lease.job_id) == [Standing(1, "is next")]
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    assert standings_of(sessions, lease.job_id) == [Standing(1, "needs 3 slots on one host; best host has 2 free")]


def lack_of_room(sessions: Sessions, gpus: int, **fields: object) -> str | None:
    spec = spec_from(job_rows.SPEC | {"gpus": gpus} | fields)
    with sessions() as session:
        problem = capacity_problem(session, request_of(spec))
        return None if problem is None else problem.text


def test_a_job_too_large_for_the_cluster_is_recognised(sessions: Sessions) -> None:
    assert lack_of_room(sessions, 4096) is None  # no host is known yet
    job_rows.a_host(sessions, "ha", slots=4)
    job_rows.a_host(sessions, "hb", slots=4)
    job_rows.host_went_silent(sessions, "ha")
    job_rows.drain_host(sessions, "hb")
    assert lack_of_room(sessions, 4) is None
    too_large = "more than this cluster has: its"
    assert lack_of_room(sessions, 5) == f"{too_large} largest host has 4 slots"
    assert lack_of_room(sessions, 1, device="gpu") == "no host has gpu slots: there are 8 cpu slots"
    for name in ("ha", "hb"):
        job_rows.a_host(sessions, name, slots=4, peers="eth0")
    assert lack_of_room(sessions, 8) is lack_of_room(sessions, 8, placement="spread") is None
    assert lack_of_room(sessions, 9) == f"{too_large} hosts that work together have 8 slots"
    assert lack_of_room(sessions, 7) == (
        "a job takes the same number of slots on each of its hosts, and 7 cannot be divided so: "
        "of the 8 slots of hosts that work together, at most 4 are on one host"
    )


def test_the_period_between_passes_grows_with_more_than_fifty_live_hosts(sessions: Sessions) -> None:
    def period_s() -> float:
        with sessions() as session:
            return shared_period_s(session, 2.0, host_timeout_s=15)

    periods_s = [period_s()]
    for number in range(100):
        job_rows.a_host(sessions, f"h{number}", slots=1)
        if number in (49, 99):
            periods_s.append(period_s())
    for number in range(25):
        job_rows.host_went_silent(sessions, f"h{number}")
    assert [*periods_s, period_s()] == [2, 2, 4, 3]


def a_project(sessions: Sessions, name: str = "vision", **values: Any) -> None:
    write(sessions, projects.create, name, **values)


def quota(sessions: Sessions, name: str = "vision") -> Quota:
    with sessions() as session:
        return quotas_of(session, [name])[name]


def usage(sessions: Sessions, project: str = "vision") -> dict[date, float]:
    of_project = select(ProjectUsage.month, ProjectUsage.slot_seconds).where(ProjectUsage.project == project)
    with sessions() as session:
        return {row.month: row.slot_seconds for row in session.execute(of_project)}


def month_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def following(at: datetime) -> datetime:
    return month_of(month_of(at) + timedelta(days=32))


def test_only_placed_jobs_of_the_project_count_against_its_slots_until_their_release(sessions: Sessions) -> None:
    a_project(sessions, max_slots=4)
    job_rows.a_host(sessions, slots=3)
    job_rows.a_job(sessions, project="vision")
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2])
    assert quota(sessions).slots == 0
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, project="vision"))
    now = datetime.now(UTC)
    since = max(now - timedelta(hours=3), month_of(now))
    change(sessions, update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=since))
    found = quota(sessions)
    assert (found.slots, found.max_slots, found.renews_at) == (2, 4, following(now))
    assert found.gpu_hours == pytest.approx(2 * (datetime.now(UTC) - since) / timedelta(hours=1), abs=0.02)
    job_rows.end_attempt(sessions, lease, releases=False)
    assert quota(sessions).slots == 2
    for gives_back in (lambda session: leases.quarantine(session, lease.attempt_id, host="ha"),
                       lambda session: leases.release(session, lease.attempt_id)):  # fmt: skip
        write(sessions, gives_back)
        assert quota(sessions).slots == 0


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati"])  # 14 hours before UTC
def test_each_month_of_utc_is_charged_its_part_of_an_attempt(sessions: Sessions, zone: str) -> None:
    a_project(sessions, max_gpu_hours=1e6)
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, project="vision"))
    since = month_of(datetime.now(UTC) - timedelta(days=70)) - timedelta(hours=1)
    change(sessions, update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=since))
    before = quota(sessions)
    with sessions.begin() as session:
        session.execute(select(func.set_config("timezone", zone, True)))
        leases.end(session, lease, EndReason.COMPLETED)
        assert quotas_of(session, ["vision"])["vision"].renews_at == following(datetime.now(UTC))
    until = job_rows.the_attempt(sessions, lease).ended_at
    expected, month = {}, month_of(since)
    while month <= until:
        held_s = min(until, following(month)) - max(since, month)
        expected[month.date()] = pytest.approx(2 * held_s.total_seconds())
        month = following(month)
    assert len(expected) in (4, 5)
    assert usage(sessions) == expected
    after = quota(sessions)
    assert after.gpu_hours == pytest.approx(usage(sessions)[month_of(until).date()] / 3600)
    assert after.gpu_hours - before.gpu_hours < 0.05  # what was counted of the live one is counted of the ended one


def test_only_projects_with_a_limit_on_running_jobs_are_read(sessions: Sessions) -> None:
    a_project(sessions, "queue-only", max_queued=1)
    with sessions() as session:
        assert active_quotas(session) == {}
    a_project(sessions, "slots", max_slots=1)
    a_project(sessions, "hours", max_gpu_hours=0.0)
    with sessions() as session:
        assert set(active_quotas(session)) == {"slots", "hours"}
        assert set(active_quotas(session, among={"slots", "default"})) == {"slots"}
