"""The list of jobs by any fields: each in its own direction, jobs without a value last, every page in sequence."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update

from api.row_views import job_view
from jobs.db.cursors import InvalidCursor, as_text
from jobs.db.engine import Sessions
from jobs.db.signing import signature
from jobs.db.tables import Job
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.model.orders import OrderField, parsed, text_of
from jobs.model.states import Status
from jobs.model.where import parsed as condition
from tests.integration.api.starting_rows import START
from tests.integration.jobs.paging import every_id, plan_of, store_all

JOBS = 120
# Few values of each, so that ties are many, and of some fields jobs without a value.
_JOBS = text("""
    INSERT INTO jobs (id, name, owner, status, spec, plan, summary, labels, gpus, priority, created_at, started_at,
        ended_at, starred, metrics)
    SELECT lpad((n * 7919 % 1000000)::text, 12, '0'), 'name-' || n % 3, 'user-' || n % 2,
        (ARRAY['succeeded', 'failed', 'queued'])[1 + n % 3], jsonb_build_object('params', CASE n % 4
            WHEN 0 THEN '{"x": 1}' WHEN 1 THEN '{"x": "1"}' WHEN 2 THEN '{"x": true}' ELSE '{}' END::jsonb),
        CASE WHEN n % 5 = 0 THEN '{}' ELSE jsonb_build_object('learning_rate', 0.1 * (n % 3)) END,
        CASE WHEN n % 2 = 0 THEN jsonb_build_object('val_loss', n % 7 / 7.0) END,
        CASE WHEN n % 3 > 0 THEN jsonb_build_object('a,b "c"', 'v' || n % 2) ELSE '{}' END, 1 + n % 4, 50,
        CAST(:start AS timestamptz) + n / 4 * interval '1 second',
        CASE WHEN n % 3 < 2 THEN CAST(:start AS timestamptz) + n % 5 * interval '1 minute' END,
        CASE WHEN n % 6 < 2 THEN CAST(:start AS timestamptz) + n % 5 * interval '2 minutes' END, n % 5 = 0,
        CASE WHEN n % 4 > 0 THEN jsonb_build_object('iou', jsonb_build_object('best', n % 5 / 5.0, 'last', n)) ELSE '{}'
        END
    FROM generate_series(1, :jobs) AS n
""")
LABEL = 'label.a,b "c"'


@pytest.fixture
def stored(sessions: Sessions, engine: Engine) -> Sessions:
    store_all(sessions, engine, _JOBS, JOBS)
    return sessions


def figures_of(sessions: Sessions) -> list[dict[str, Any]]:
    """The jobs' values of the fields by which these tests sort. None comes last in both directions."""
    with sessions() as session:
        jobs = [job_view(job) for job in session.scalars(select(Job))]
    return [
        {
            "id": job.id, "created": job.created_at, "name": job.name, "owner": job.owner, "gpus": job.gpus,
            "status": str(job.status), "starred": job.starred, "started": job.started_at,
            "started_at": job.started_at or datetime.max.replace(tzinfo=UTC),
            "val_loss": job.summary and job.summary.val_loss, "learning_rate": job.plan.get("learning_rate"),
            "metrics.iou": job.metrics["iou"].best if job.metrics else None, LABEL: job.labels.get('a,b "c"'),
            "spec.params.x": rank(job.spec["params"].get("x")),
        }
        for job in jobs
    ]  # fmt: skip


def rank(value: Any) -> Any:
    """Texts come before numbers, and numbers before false and true."""
    return value and ([str, int, bool].index(type(value)), value)


def sorted_by(jobs: Sequence[dict[str, Any]], order: str) -> list[str]:
    """The ids of jobs in an order, sorted by one field after the other."""
    fields = [(field.name, field.falls) for field in parsed(order)]
    jobs = list(jobs)
    for name, falls in reversed([*fields, ("created", fields[-1][1]), ("id", fields[-1][1])]):
        there = [job for job in jobs if job[name] is not None]
        # Stable in both directions.
        there.sort(key=lambda job, name=name: job[name], reverse=falls)  # type: ignore[misc]
        jobs = [*there, *(job for job in jobs if job[name] is None)]
    return [job["id"] for job in jobs]


FIELDS = (
    "starred", "name", "owner", "gpus", "status", "started", "started_at", "val_loss", "learning_rate", "metrics.iou",
    LABEL, "spec.params.x", "created",
)  # fmt: skip
ORDERS = (
    "-starred,-metrics.iou,created", "started_at,-val_loss", "-started_at,started,name", "-created,name",
    f"{json.dumps(LABEL)},-spec.params.x,-gpus,val_loss",
)  # fmt: skip


def some_orders(count: int) -> list[str]:
    """Orders of one to four fields in any directions, the same ones each time."""
    chance = random.Random(17)  # noqa: S311
    return [
        text_of(tuple(OrderField(name, chance.random() < 0.5) for name in chance.sample(FIELDS, chance.randint(1, 4))))
        for _ in range(count)
    ]


def test_all_pages_together_are_sorted_by_every_field(stored: Sessions, subtests: pytest.Subtests) -> None:
    jobs = figures_of(stored)
    for order in (*ORDERS, *some_orders(25)):
        with subtests.test(order=order):
            assert every_id(stored, JobFilter(), order, limit=17) == sorted_by(jobs, order)
    some = JobFilter(statuses=frozenset({Status.FAILED, Status.QUEUED}), where=(condition("gpus>1 or starred"),))
    chosen = [job for job in jobs if job["status"] != "succeeded" and (job["gpus"] > 1 or job["starred"])]
    assert every_id(stored, some, ORDERS[0], limit=7) == sorted_by(chosen, ORDERS[0])


def test_no_job_is_seen_twice_while_others_are_added(stored: Sessions) -> None:
    order, seen, cursor = "-starred,metrics.iou,-gpus", list[str](), None
    before = sorted_by(figures_of(stored), order)
    for number in range(JOBS):  # more than there are pages
        with stored.begin() as session:  # before, at and behind the place that is read
            more = _JOBS.text.replace("n * 7919", f"n + {500000 + 9 * number}")
            session.execute(text(more), {"jobs": 9, "start": START - timedelta(minutes=number)})
        with stored() as session:
            page = list_jobs(session, ListQuery(JobFilter(), order, 20, cursor))
        seen += [job.id for job in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert len(seen) == len(set(seen))
    old = set(before)
    assert [job_id for job_id in seen if job_id in old] == before


def test_cursors_of_the_version_before_are_read(stored: Sessions) -> None:
    """It signed the text of the one field, and stored its value, the time and the id."""
    jobs = figures_of(stored)
    for order, name in (("-metrics.iou", "metrics.iou"), ("val_loss", "val_loss"), ("-started", "started")):
        ids = sorted_by(jobs, order)
        for place in (0, JOBS // 2, JOBS - 10):
            job = next(job for job in jobs if job["id"] == ids[place])
            value = "" if job[name] is None else job[name]
            if order != "val_loss" and value != "":  # as JSON in a text
                value = json.dumps(value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if name == "started" else value)
            identity = json.dumps(["jobs", order, [], [], *[None] * 6, "None", "None"])
            payload = json.dumps([value, job["created"].isoformat(), job["id"]]).encode()
            with stored() as session:
                cursor = as_text(signature(session, payload, of=identity) + payload)
                page = list_jobs(session, ListQuery(JobFilter(), order, JOBS, cursor))
            assert [job.id for job in page.items] == ids[place + 1 :]


def test_a_cursor_of_several_fields_is_of_this_order_only_and_may_hold_long_texts(stored: Sessions) -> None:
    names = [f"label.{letter}" for letter in "abcd"]
    with stored.begin() as session:
        session.execute(update(Job).values(labels={name[-1]: '\\"😀' * 100 for name in names}))
    order = ",".join(names)
    with stored() as session:
        page = list_jobs(session, ListQuery(JobFilter(), order, 1))
        assert page.next_cursor is not None
        assert len(page.next_cursor) <= 4000
        assert len(list_jobs(session, ListQuery(JobFilter(), order, JOBS, page.next_cursor)).items) == JOBS - 1
        for other in (f"-{order}", names[0], ",".join(reversed(names)), ",".join(names[:3])):
            with pytest.raises(InvalidCursor):
                list_jobs(session, ListQuery(JobFilter(), other, 1, page.next_cursor))


def test_an_index_on_the_first_field_is_read_as_far_as_a_page_needs(stored: Sessions, engine: Engine) -> None:
    plan, rows = plan_of(stored, engine, ListQuery(JobFilter(), "-gpus,name", 5))
    assert "Incremental Sort" in plan
    assert "ix_jobs_gpus" in plan
    assert rows < JOBS
