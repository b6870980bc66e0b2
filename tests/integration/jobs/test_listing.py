"""The list of jobs: every order is total, an index finds every page, and a cursor continues after the last job."""

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update

from api.row_views import job_view
from jobs.db import text_search
from jobs.db.cursors import InvalidCursor
from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.db.text_search import TooMuchToSearch
from jobs.lifecycle import listing
from jobs.lifecycle.list_sorts import Order
from jobs.lifecycle.listing import JobFilter, ListQuery, count_jobs, list_jobs
from jobs.model.orders import OrderField, parsed, text_of
from jobs.model.states import Status
from jobs.model.where import parsed as condition
from tests.integration.api.starting_rows import START, seconds
from tests.integration.jobs.paging import JOBS, LABEL, METRIC, analyzed, every_id, plan_of, store_jobs
from tests.integration.jobs.writing import change

COUNT = 200
FAILED, SUCCEEDED, QUEUED = Status.FAILED, Status.SUCCEEDED, Status.QUEUED
LATEST = datetime.max.replace(tzinfo=UTC)
Figures = dict[str, Any]


@pytest.fixture
def stored(sessions: Sessions, engine: Engine) -> Sessions:
    store_jobs(sessions, engine, COUNT)
    return sessions


@pytest.fixture
def many(sessions: Sessions, engine: Engine) -> Sessions:
    """So many jobs that an index is worth it."""
    store_jobs(sessions, engine, 3000)
    return sessions


def figures_of(sessions: Sessions) -> list[Figures]:
    """The jobs' values of the fields by which these tests sort. None comes last in both directions.

    Jobs without a time are where the latest would be, and unfinished ones are the longest.
    """
    with sessions() as session:
        jobs = [(job_view(job), job.paused_at) for job in session.scalars(select(Job))]
    return [
        {
            "id": job.id, "created": job.created_at, "created_at": job.created_at, "name": job.name, "owner": job.owner,
            "gpus": job.gpus, "status": job.status, "starred": job.starred, "priority": job.priority,
            "started": job.started_at, "started_at": job.started_at or LATEST, "ended_at": job.ended_at or LATEST,
            "duration": job.ended_at - job.started_at if job.started_at and job.ended_at else timedelta.max,
            "stored": (job.checkpoint_bytes or 0) + (job.artifact_bytes or 0), "paused": paused_at is not None,
            "batch_size": job.plan.get("global_batch"), "learning_rate": job.plan.get("learning_rate"),
            "val_accuracy": job.summary and job.summary.val_accuracy, "val_loss": job.summary and job.summary.val_loss,
            "train_samples_per_s": job.summary and job.summary.train_samples_per_s,
            METRIC: job.metrics["val/iou.x"].best if job.metrics else None, LABEL: job.labels.get('a,b "c"'),
            "team": job.labels["team"], "spec.params.x": rank(job.spec["params"].get("x")),
            "source": job.spec["dataset"]["source"], "network": job.spec["model"]["name"],
        }
        for job, paused_at in jobs
    ]  # fmt: skip


def rank(value: Any) -> Any:
    """Texts come before numbers, and numbers before false and true."""
    return value and ([str, int, bool].index(type(value)), value)


def sorted_by(jobs: Iterable[Figures], order: str) -> list[str]:
    """The ids of jobs in an order, sorted by one field after the other."""
    fields = [(field.name, field.falls) for field in parsed(order)]
    jobs = list(jobs)
    for name, falls in reversed([*fields, ("created", fields[-1][1]), ("id", fields[-1][1])]):
        there = [job for job in jobs if job[name] is not None]
        # Stable in both directions.
        there.sort(key=lambda job, name=name: job[name], reverse=falls)  # type: ignore[misc]
        jobs = [*there, *(job for job in jobs if job[name] is None)]
    return [job["id"] for job in jobs]


WITH_INDEX = (
    "created_at", "started_at", "ended_at", "name", "priority", "batch_size", "learning_rate", "val_accuracy",
    "val_loss", "train_samples_per_s", "gpus", "duration", "stored",
)  # fmt: skip
FIELDS = (
    "starred", "name", "owner", "gpus", "status", "started", "started_at", "val_loss", "learning_rate", METRIC, LABEL,
    "spec.params.x", "created",
)  # fmt: skip
SEVERAL = (
    f"-starred,-{METRIC},created", "started_at,-val_loss", "-started_at,started,name", "-created,name",
    f"{json.dumps(LABEL)},-spec.params.x,-gpus,val_loss",
)  # fmt: skip


def some_orders(count: int) -> list[str]:
    """Orders of one to four fields in any directions, the same ones each time."""
    chance = random.Random(17)  # noqa: S311
    return [
        text_of(tuple(OrderField(name, chance.random() < 0.5) for name in chance.sample(FIELDS, chance.randint(1, 4))))
        for _ in range(count)
    ]


def test_all_pages_together_are_sorted_in_every_order(stored: Sessions, subtests: pytest.Subtests) -> None:
    jobs = figures_of(stored)
    single = [f"{sign}{name}" for name in (*WITH_INDEX, METRIC) for sign in ("", "-")]
    for order in (*single, *SEVERAL, *some_orders(25)):
        with subtests.test(order=order):
            assert every_id(stored, JobFilter(), order, limit=23) == sorted_by(jobs, order)


def test_all_pages_together_are_sorted_for_every_filter(stored: Sessions, subtests: pytest.Subtests) -> None:
    since, until = seconds(20), seconds(40)
    filters: list[tuple[JobFilter, Callable[[Figures], bool]]] = [
        (JobFilter(statuses=frozenset({SUCCEEDED})), lambda job: job["status"] == SUCCEEDED),
        (
            JobFilter(statuses=frozenset({QUEUED, FAILED}), name="Name-7"),
            lambda job: job["name"] == "Name-7" and job["status"] in (QUEUED, FAILED),
        ),
        (
            JobFilter(search="USER-8", statuses=frozenset({SUCCEEDED, Status.RUNNING})),
            lambda job: job["owner"] == "user-8" and job["status"] == SUCCEEDED,
        ),
        (
            JobFilter(statuses=frozenset({FAILED, QUEUED}), where=(condition("gpus>1 or starred"),)),
            lambda job: job["status"] in (FAILED, QUEUED) and (job["gpus"] > 1 or job["starred"]),
        ),
        (JobFilter(statuses=frozenset({FAILED}), owner="user-1"), lambda job: job["owner"] == "user-1"),
        (JobFilter(labels=(("team", "Team-3"),)), lambda job: job["team"] == "Team-3"),
        (JobFilter(paused=True), lambda job: job["paused"]),
        (JobFilter(project="none"), lambda job: False),
        (JobFilter(since=since, until=until), lambda job: since <= job["created"] < until),
    ]
    jobs = figures_of(stored)
    for job_filter, holds in filters:
        for order in ("-created_at", "ended_at", "-name", "val_accuracy", f"-{METRIC}", SEVERAL[0]):
            with subtests.test(filter=job_filter, order=order):
                assert every_id(stored, job_filter, order, limit=7) == sorted_by(filter(holds, jobs), order)


# The index that may find a page. For labels the database reads the few jobs that have them, and sorts these.
PLANS: list[tuple[JobFilter, Order, str]] = [
    (JobFilter(), "-created_at", "ix_jobs_newest"),
    (JobFilter(), "created_at", "ix_jobs_newest"),
    (JobFilter(since=seconds(500), until=seconds(900)), "-created_at", "ix_jobs_newest"),
    (JobFilter(), "-started_at", "ix_jobs_started"),
    (JobFilter(), "-ended_at", "ix_jobs_ended"),
    (JobFilter(), "name", "ix_jobs_name"),
    (JobFilter(), "-priority", "ix_jobs_priority"),
    (JobFilter(name="Name-7"), "-created_at", "ix_jobs_name"),
    (JobFilter(owner="user-1"), "-created_at", "ix_jobs_owner"),
    (JobFilter(project="none"), "-created_at", "ix_jobs_project"),
    (JobFilter(paused=True), "-created_at", "ix_jobs_paused"),
    (JobFilter(statuses=frozenset({Status.RUNNING})), "-created_at", "ix_jobs_status"),  # few
    (JobFilter(statuses=frozenset({Status.RUNNING, Status.LAUNCHING})), "-created_at", "ix_jobs_status"),
    # Every second job. Which of the two is cheaper depends on when the table was vacuumed.
    (JobFilter(statuses=frozenset({FAILED, Status.CANCELLED})), "-created_at", "ix_jobs_status|ix_jobs_newest"),
    (JobFilter(), "-gpus", "ix_jobs_gpus"),
    (JobFilter(), "-duration", "ix_jobs_duration"),
    (JobFilter(), "-stored", "ix_jobs_stored"),
    (JobFilter(), "-val_accuracy", "ix_jobs_val_accuracy"),
    (JobFilter(), "val_loss", "ix_jobs_val_loss"),
    (JobFilter(), "-train_samples_per_s", "ix_jobs_train_samples_per_s"),
    (JobFilter(), "-batch_size", "ix_jobs_batch_size"),
    (JobFilter(), "learning_rate", "ix_jobs_learning_rate"),
    (JobFilter(statuses=frozenset({FAILED})), "-val_accuracy", "ix_jobs_val_accuracy"),  # none of which has one
    (JobFilter(statuses=frozenset({SUCCEEDED})), "val_loss", "ix_jobs_val_loss"),
]
_NO_FIGURES = ("created_at", "started_at", "ended_at", "name", "priority")


def test_the_first_and_late_pages_are_found_by_an_index(
    many: Sessions, engine: Engine, subtests: pytest.Subtests
) -> None:
    for job_filter, order, index in PLANS:
        page_query, cursors = ListQuery(job_filter, order, 25 if job_filter.statuses else 100), [None]
        with many() as session:
            for _ in range(29):
                cursors.append(list_jobs(session, replace(page_query, cursor=cursors[-1])).next_cursor)
        # Twice 11 of two statuses, each once more by its id. Where few have a figure still, all of them are sorted.
        most = 60 if order.removeprefix("-") in _NO_FIGURES else 150
        for number in (0, 3, 7, 28):  # with figures, where they end, without them
            with subtests.test(filter=job_filter, order=order, page=number):
                plan, rows = plan_of(many, engine, replace(page_query, limit=10, cursor=cursors[number]))
                assert re.search(index, plan), plan
                assert "Seq Scan" not in plan
                assert rows <= most, plan


def test_the_few_jobs_that_are_not_archived_are_found_by_an_index(many: Sessions, engine: Engine) -> None:
    change(many, text("UPDATE jobs SET archived = id NOT IN (SELECT id FROM jobs ORDER BY created_at LIMIT 30)"))
    analyzed(engine)
    for archived, index in ((False, "ix_jobs_not_archived"), (True, "ix_jobs_archived")):
        plan, rows = plan_of(many, engine, ListQuery(JobFilter(archived=archived), limit=10))
        assert (index in plan, rows) == (True, 11), plan
    assert len(every_id(many, JobFilter(archived=False), "-name", limit=7)) == 30
    plan, rows = plan_of(many, engine, ListQuery(JobFilter(), "-gpus,name", 5))
    assert "Incremental Sort" in plan, "an index on the first field is read as far as a page needs"
    assert "ix_jobs_gpus" in plan
    assert rows < 1000


def test_jobs_are_counted_up_to_a_bound(stored: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(**filters: Any) -> int:
        with stored() as session:
            return count_jobs(session, JobFilter(**filters))

    some = frozenset({Status.FAILED, Status.QUEUED})
    assert (count(), count(statuses=some), count(owner="user-1")) == (COUNT, COUNT / 2, COUNT / 20)
    assert count(statuses=some, search="name-7", paused=False) == 4
    monkeypatch.setattr(listing, "MOST_COUNTED", 10)
    assert (count(), count(owner="user-1", name="Name-1")) == (11, 2)


def test_a_search_finds_jobs_by_id_name_owner_data_network_and_labels(
    stored: Sessions, subtests: pytest.Subtests
) -> None:
    jobs = figures_of(stored)
    cases: dict[str, tuple[str, str]] = {
        "name-17": ("name", "Name-17"), "000000007919": ("id", "000000007919"), "User-11": ("owner", "user-11"),
        "/DATA/set_29": ("source", "/data/Set_29"), "net%39": ("network", "models:net%39"),
        "tEam-42": ("team", "Team-42"),
    }  # fmt: skip
    for search, (field, value) in cases.items():
        with subtests.test(search=search):
            found = every_id(stored, JobFilter(search=search), "-created_at", limit=500)
            assert found == sorted_by([job for job in jobs if job[field] == value], "-created_at") != []
    for search in ("stage", "%", "data_set", "teamTeam", "x000", "\\"):
        is_everywhere = search in ("stage", "%")  # a percent sign is in all names of networks
        found = every_id(stored, JobFilter(search=search), "-created_at", limit=500)
        assert len(found) == (COUNT if is_everywhere else 0), search


def test_a_search_finds_a_new_job_by_non_ascii_letters_in_any_case(stored: Sessions) -> None:
    change(stored, text("UPDATE jobs SET name = 'ÄÖ-Ñ' WHERE id = '000000007919'"))
    for search in ("äö", "Äö-ñ"):
        assert every_id(stored, JobFilter(search=search), "-created_at", limit=500) == ["000000007919"]


def test_a_search_over_too_many_jobs_is_refused(many: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    change(many, text("UPDATE job_texts SET text = repeat(text, 200)"))
    monkeypatch.setattr(text_search, "SEARCH_LIMIT_S", 0.001)
    with many() as session, pytest.raises(TooMuchToSearch):
        list_jobs(session, ListQuery(JobFilter(search="nobody")))


def test_no_job_is_seen_twice_while_others_are_added(stored: Sessions) -> None:
    order, seen, cursor = f"-starred,{METRIC},-gpus", list[str](), None
    before = sorted_by(figures_of(stored), order)
    for number in range(COUNT):  # more than there are pages
        with stored.begin() as session:  # before, at and behind the place that is read
            more = JOBS.text.replace("n * 7919 % 1000000", f"n + {5000000 + 9 * number}")
            values = {"jobs": 9, "start": START - timedelta(minutes=number)}
            session.execute(text(more).bindparams(metric=METRIC.removeprefix("metrics.")), values)
        with stored() as session:
            page = list_jobs(session, ListQuery(JobFilter(), order, 20, cursor))
        seen += [job.id for job in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert len(seen) == len(set(seen))
    assert [job_id for job_id in seen if job_id in set(before)] == before


def test_a_cursor_of_several_fields_is_of_this_order_only_and_may_hold_long_texts(stored: Sessions) -> None:
    names = [f"label.{letter}" for letter in "abcd"]
    change(stored, update(Job).values(labels={name[-1]: '\\"😀' * 100 for name in names}))
    order = ",".join(names)
    with stored() as session:
        page = list_jobs(session, ListQuery(JobFilter(), order, 1))
        assert page.next_cursor is not None
        assert len(page.next_cursor) <= 4000
        assert len(list_jobs(session, ListQuery(JobFilter(), order, COUNT, page.next_cursor)).items) == COUNT - 1
        for other in (f"-{order}", names[0], ",".join(reversed(names)), ",".join(names[:3])):
            with pytest.raises(InvalidCursor):
                list_jobs(session, ListQuery(JobFilter(), other, 1, page.next_cursor))
