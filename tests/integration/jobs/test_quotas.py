"""The slots and GPU-hours that projects use, and which jobs their queues admit."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, ProjectUsage
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.people import projects
from jobs.people.project_admission import Applicant, ProjectArchived, QueueFull, admit
from jobs.people.rights import NotAllowed
from jobs.people.tokens import add_user
from jobs.scheduling.allowances import Quota
from jobs.scheduling.quotas import active_quotas, quotas_of
from tests.integration.jobs import job_rows


def a_project(sessions: Sessions, name: str = "vision", **values: Any) -> None:
    with sessions.begin() as session:
        projects.create(session, name, **values)


def quota(sessions: Sessions, name: str = "vision") -> Quota:
    with sessions() as session:
        return quotas_of(session, [name])[name]


def placed_at(sessions: Sessions, lease: Lease, at: datetime) -> None:
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=at))


def usage(sessions: Sessions, project: str = "vision") -> dict[date, float]:
    with sessions() as session:
        rows = session.execute(
            select(ProjectUsage.month, ProjectUsage.slot_seconds).where(ProjectUsage.project == project)
        )
        return {month: seconds for month, seconds in rows}  # noqa: C416 - a row is no pair to the type checker


def month_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def following(month: datetime) -> datetime:
    return month_of(month + timedelta(days=32))


def test_only_placed_jobs_of_the_project_count_against_its_slots_until_their_release(sessions: Sessions) -> None:
    a_project(sessions, max_slots=4)
    job_rows.a_host(sessions, slots=3)
    job_rows.a_job(sessions, project="vision")
    job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2])
    assert quota(sessions).slots == 0
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, project="vision"))
    now = datetime.now(UTC)
    since = max(now - timedelta(hours=3), month_of(now))
    placed_at(sessions, lease, since)
    found = quota(sessions)
    assert (found.slots, found.max_slots, found.renews_at) == (2, 4, following(now))
    assert found.gpu_hours == pytest.approx(2 * (datetime.now(UTC) - since) / timedelta(hours=1), abs=0.02)
    job_rows.end_attempt(sessions, lease, releases=False)
    assert quota(sessions).slots == 2
    for gives_back in (lambda session: leases.quarantine(session, lease.attempt_id, host="ha"),
                       lambda session: leases.release(session, lease.attempt_id)):  # fmt: skip
        with sessions.begin() as session:
            gives_back(session)
        assert quota(sessions).slots == 0


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati"])  # 14 hours before UTC
def test_each_month_of_utc_is_charged_its_part_of_an_attempt(sessions: Sessions, zone: str) -> None:
    a_project(sessions, max_gpu_hours=1e6)
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, project="vision"))
    since = month_of(datetime.now(UTC) - timedelta(days=70)) - timedelta(hours=1)
    placed_at(sessions, lease, since)
    before = quota(sessions)
    with sessions.begin() as session:
        session.execute(select(func.set_config("timezone", zone, True)))
        leases.end(session, lease, EndReason.COMPLETED)
        assert quotas_of(session, ["vision"])["vision"].renews_at == following(datetime.now(UTC))
    until = job_rows.the_attempt(sessions, lease).ended_at
    assert until is not None
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


def submit(sessions: Sessions, user: str = "me", *, is_admin: bool = False, project: str = "vision") -> str:
    """A submission as the api makes one; raises what `admit` raises."""
    spec = spec_from(job_rows.SPEC | {"project": project})
    with sessions.begin() as session:
        admit(session, project, Applicant(user, is_admin), jobs=1)
        return write_job(session, spec=spec, plan=resolve_plan(spec, None), owner=user).id


def test_a_full_queue_says_its_length_and_its_limit(sessions: Sessions) -> None:
    a_project(sessions, max_queued=2)
    first = submit(sessions)
    with (
        sessions.begin() as session,
        pytest.raises(QueueFull, match=r"has 1 of 2 jobs in the queue; this would add 2"),
    ):
        admit(session, "vision", Applicant("me"), jobs=2)
    submit(sessions)
    with pytest.raises(QueueFull, match=r"the project vision has 2 of 2 jobs in the queue$"):
        submit(sessions, is_admin=True)
    job_rows.cancel(sessions, first)
    submit(sessions)


def test_a_closed_project_is_for_its_members_and_for_admins(sessions: Sessions) -> None:
    a_project(sessions, is_open=False)
    with sessions.begin() as session:
        add_user(session, "ada")
        projects.add_member(session, "vision", "ada")
    submit(sessions, "ada")
    submit(sessions, "root", is_admin=True)
    with pytest.raises(NotAllowed, match="the project vision takes jobs only from its members and from admins"):
        submit(sessions, "eve")
    with sessions.begin() as session:
        projects.change(session, "vision", is_archived=True)
    with pytest.raises(ProjectArchived):
        submit(sessions, "ada")
