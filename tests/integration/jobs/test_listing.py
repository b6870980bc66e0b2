"""The list of jobs: every sort order is total, an index finds every page, and a cursor continues after the last job."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from jobs.db.engine import Sessions
from jobs.lifecycle import listing
from jobs.lifecycle.list_sorts import Order
from jobs.lifecycle.listing import JobFilter, ListQuery, count_jobs, list_jobs
from jobs.model.states import Status
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs.paging import analyzed, every_id, in_one_sort, plan_of, store_all

JOBS = 3000
_JOBS = text("""
    INSERT INTO jobs (id, name, owner, project, status, spec, plan, labels, gpus, priority, created_at, started_at,
        ended_at, paused_at)
    SELECT lpad(n::text, 12, '0'), 'name-' || n % 50, 'user-' || n % 20, 'default',
        (ARRAY['succeeded', 'failed', 'cancelled', 'queued'])[1 + n % 4], '{}', '{}',
        jsonb_build_object('team', 'team-' || n % 100), 1, n % 7,
        CAST(:start AS timestamptz) + n / 3 * interval '1 second',
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 977) * interval '1 minute' END,
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 983) * interval '1 hour' END,
        CASE WHEN n % 100 = 3 THEN now() END
    FROM generate_series(1, :jobs) AS n
""")
ORDERS: tuple[Order, ...] = (
    "-created_at", "created_at", "-started_at", "started_at", "-ended_at", "ended_at", "-name", "name", "-priority",
    "priority",
)  # fmt: skip


@pytest.fixture
def sessions_with_jobs(sessions: Sessions, engine: Engine) -> Sessions:
    store_all(sessions, engine, _JOBS, JOBS)
    return sessions


def test_all_pages_together_are_sorted_in_every_sort_order(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    for order in ORDERS:
        with subtests.test(order=order):
            job_ids = every_id(sessions_with_jobs, JobFilter(), order, limit=451)
            assert len(job_ids) == JOBS
            assert job_ids == in_one_sort(sessions_with_jobs, "true", order)


def test_all_pages_together_are_sorted_for_every_filter(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    some = frozenset({Status.QUEUED, Status.FAILED, Status.RUNNING})
    since, until = seconds(100), seconds(200)
    filters = {
        "status IN ('queued', 'failed', 'running')": JobFilter(statuses=some),
        "status = 'failed' AND owner = 'user-1'": JobFilter(statuses=frozenset({Status.FAILED}), owner="user-1"),
        "status IN ('queued', 'failed') AND name = 'name-7'": JobFilter(
            statuses=frozenset({Status.QUEUED, Status.FAILED}), name="name-7"
        ),
        "labels ->> 'team' = 'team-3'": JobFilter(labels=(("team", "team-3"),)),
        "paused_at IS NOT NULL": JobFilter(paused=True),
        "project = 'none'": JobFilter(project="none"),
        f"created_at >= '{since}' AND created_at < '{until}'": JobFilter(since=since, until=until),
    }
    for condition, job_filter in filters.items():
        for order in ("-created_at", "ended_at", "-name"):
            with subtests.test(condition=condition, order=order):
                assert every_id(sessions_with_jobs, job_filter, order, limit=37) == in_one_sort(
                    sessions_with_jobs, condition, order
                )


def test_since_is_inclusive_and_until_is_exclusive(sessions_with_jobs: Sessions) -> None:
    def count(**bounds: Any) -> int:
        return len(every_id(sessions_with_jobs, JobFilter(**bounds), "created_at", limit=500))

    at, tick = seconds(10), timedelta(microseconds=1)
    assert count(since=at, until=at + tick) == 3
    assert count(since=at + tick, until=at + tick + tick) == count(since=at, until=at) == 0


# The index that may find a page. For labels the database reads the few jobs that have them, and sorts these.
PLANS: dict[str, tuple[JobFilter, Order, str]] = {
    "newest": (JobFilter(), "-created_at", "ix_jobs_newest"),
    "oldest": (JobFilter(), "created_at", "ix_jobs_newest"),
    "since": (JobFilter(since=seconds(500), until=seconds(900)), "-created_at", "ix_jobs_newest"),
    "last started": (JobFilter(), "-started_at", "ix_jobs_started"),
    "first started": (JobFilter(), "started_at", "ix_jobs_started"),
    "last ended": (JobFilter(), "-ended_at", "ix_jobs_ended"),
    "by name": (JobFilter(), "name", "ix_jobs_name"),
    "by name, falling": (JobFilter(), "-name", "ix_jobs_name"),
    "by priority": (JobFilter(), "-priority", "ix_jobs_priority"),
    "of a name": (JobFilter(name="name-7"), "-created_at", "ix_jobs_name"),
    "of an owner": (JobFilter(owner="user-1"), "-created_at", "ix_jobs_owner"),
    "of a project": (JobFilter(project="none"), "-created_at", "ix_jobs_project"),
    "paused": (JobFilter(paused=True), "-created_at", "ix_jobs_paused"),
    "of a status": (JobFilter(statuses=frozenset({Status.FAILED})), "-created_at", "ix_jobs_status"),
    "of several statuses": (
        JobFilter(statuses=frozenset({Status.FAILED, Status.CANCELLED})), "-created_at", "ix_jobs_status",
    ),
}  # fmt: skip


def test_the_first_and_a_late_page_are_found_by_an_index(
    sessions_with_jobs: Sessions, engine: Engine, subtests: pytest.Subtests
) -> None:
    for case, (filter_, order, index) in PLANS.items():
        with subtests.test(case=case):
            late = None
            with sessions_with_jobs() as session:
                for _ in range(5):  # of a filter that few pass, the last page there is
                    late = list_jobs(session, ListQuery(filter_, order, 10, late)).next_cursor or late
            for cursor in dict.fromkeys((None, late)):
                plan, rows = plan_of(sessions_with_jobs, engine, ListQuery(filter_, order, 10, cursor))
                assert index in plan
                assert "Seq Scan" not in plan
                assert rows <= 60, plan  # twice 11 of two statuses, and each once more by its id


def test_the_few_jobs_that_are_not_archived_are_found_by_an_index(sessions_with_jobs: Sessions, engine: Engine) -> None:
    with sessions_with_jobs.begin() as session:
        session.execute(text("UPDATE jobs SET archived = id > '000000000030'"))
    analyzed(engine)
    for archived, index in ((False, "ix_jobs_not_archived"), (True, "ix_jobs_archived")):
        plan, rows = plan_of(sessions_with_jobs, engine, ListQuery(JobFilter(archived=archived), limit=10))
        assert (index in plan, rows) == (True, 11), plan
    assert len(every_id(sessions_with_jobs, JobFilter(archived=False), "-name", limit=7)) == 30


def test_jobs_are_counted_up_to_a_bound(sessions_with_jobs: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(**filters: Any) -> int:
        with sessions_with_jobs() as session:
            return count_jobs(session, JobFilter(**filters))

    some = frozenset({Status.FAILED, Status.QUEUED})
    assert (count(), count(statuses=some), count(owner="user-1")) == (JOBS, JOBS / 2, JOBS / 20)
    assert count(statuses=some, search="name-7", paused=False) == len(
        every_id(sessions_with_jobs, JobFilter(statuses=some, search="name-7", paused=False), "created_at", limit=500)
    )
    assert count(project="none") == 0
    monkeypatch.setattr(listing, "MOST_COUNTED", 100)
    assert (count(), count(owner="user-1", name="name-1")) == (101, 30)
