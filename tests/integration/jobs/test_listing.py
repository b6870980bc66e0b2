"""The list of jobs: every sort order is total, an index finds every page, and a cursor continues after the last job."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from jobs.db import text_search
from jobs.db.engine import Sessions
from jobs.db.text_search import TooMuchToSearch
from jobs.lifecycle import listing
from jobs.lifecycle.list_sorts import FieldOrder, Order
from jobs.lifecycle.listing import JobFilter, ListQuery, count_jobs, list_jobs
from jobs.model.states import Status
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs.paging import MANY, METRIC, analyzed, every_id, in_one_sort, plan_of, store_many

COLUMNS = (
    "created_at", "started_at", "ended_at", "name", "priority", "batch_size", "learning_rate", "val_accuracy",
    "val_loss", "train_samples_per_s", "gpus", "duration", "stored", METRIC,
)  # fmt: skip
FAILED, SUCCEEDED, QUEUED = Status.FAILED, Status.SUCCEEDED, Status.QUEUED


@pytest.fixture
def sessions_with_jobs(sessions: Sessions, engine: Engine) -> Sessions:
    store_many(sessions, engine)
    return sessions


def test_all_pages_together_are_sorted_in_every_sort_order(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    orders: list[Any] = [f"{sign}{column}" for column in COLUMNS for sign in ("", "-")]
    for order in orders:
        with subtests.test(order=order):
            job_ids = every_id(sessions_with_jobs, JobFilter(), order, limit=751)
            assert len(job_ids) == MANY
            assert job_ids == in_one_sort(sessions_with_jobs, "true", order)


def test_all_pages_together_are_sorted_for_every_filter(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    since, until = seconds(100), seconds(200)
    filters = {
        "status = 'succeeded'": JobFilter(statuses=frozenset({SUCCEEDED})),
        "status IN ('queued', 'failed', 'running')": JobFilter(statuses=frozenset({QUEUED, FAILED, Status.RUNNING})),
        "status = 'failed' AND owner = 'user-1'": JobFilter(statuses=frozenset({FAILED}), owner="user-1"),
        "status IN ('queued', 'failed') AND name = 'Name-7'": JobFilter(
            statuses=frozenset({QUEUED, FAILED}), name="Name-7"
        ),
        "owner = 'user-8' AND status IN ('succeeded', 'queued')": JobFilter(
            search="USER-8", statuses=frozenset({SUCCEEDED, QUEUED})
        ),
        "labels ->> 'team' = 'Team-3'": JobFilter(labels=(("team", "Team-3"),)),
        "paused_at IS NOT NULL": JobFilter(paused=True),
        "project = 'none'": JobFilter(project="none"),
        f"created_at >= '{since}' AND created_at < '{until}'": JobFilter(since=since, until=until),
    }
    orders: tuple[Order | FieldOrder, ...] = ("-created_at", "ended_at", "-name", "val_accuracy", f"-{METRIC}")
    for condition, job_filter in filters.items():
        for order in orders:
            with subtests.test(condition=condition, order=order):
                expected = in_one_sort(sessions_with_jobs, condition, order)
                assert every_id(sessions_with_jobs, job_filter, order, limit=31 if len(expected) < 200 else 211) == (
                    expected
                )


def test_since_is_inclusive_and_until_is_exclusive(sessions_with_jobs: Sessions) -> None:
    def count(**bounds: Any) -> int:
        return len(every_id(sessions_with_jobs, JobFilter(**bounds), "created_at", limit=500))

    at, tick = seconds(10), timedelta(microseconds=1)
    assert count(since=at, until=at + tick) == 3
    assert count(since=at + tick, until=at + tick + tick) == count(since=at, until=at) == 0


# The index that may find a page. For labels the database reads the few jobs that have them, and sorts these.
PLANS: list[tuple[JobFilter, Order, str]] = [
    (JobFilter(), "-created_at", "ix_jobs_newest"),
    (JobFilter(), "created_at", "ix_jobs_newest"),
    (JobFilter(since=seconds(500), until=seconds(900)), "-created_at", "ix_jobs_newest"),
    (JobFilter(), "-started_at", "ix_jobs_started"),
    (JobFilter(), "started_at", "ix_jobs_started"),
    (JobFilter(), "-ended_at", "ix_jobs_ended"),
    (JobFilter(), "name", "ix_jobs_name"),
    (JobFilter(), "-name", "ix_jobs_name"),
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
    (JobFilter(), "duration", "ix_jobs_duration"),
    (JobFilter(), "-stored", "ix_jobs_stored"),
    (JobFilter(), "stored", "ix_jobs_stored"),
    (JobFilter(), "-val_accuracy", "ix_jobs_val_accuracy"),
    (JobFilter(), "val_accuracy", "ix_jobs_val_accuracy"),
    (JobFilter(), "val_loss", "ix_jobs_val_loss"),
    (JobFilter(), "-train_samples_per_s", "ix_jobs_train_samples_per_s"),
    (JobFilter(), "-batch_size", "ix_jobs_batch_size"),
    (JobFilter(), "learning_rate", "ix_jobs_learning_rate"),
    (JobFilter(statuses=frozenset({FAILED})), "-val_accuracy", "ix_jobs_val_accuracy"),  # none of which has one
    (JobFilter(statuses=frozenset({SUCCEEDED})), "val_loss", "ix_jobs_val_loss"),
]
_NO_FIGURES = ("created_at", "started_at", "ended_at", "name", "priority")


def test_the_first_and_late_pages_are_found_by_an_index(
    sessions_with_jobs: Sessions, engine: Engine, subtests: pytest.Subtests
) -> None:
    for job_filter, order, index in PLANS:
        page_query, cursors = ListQuery(job_filter, order, 25 if job_filter.statuses else 100), [None]
        with sessions_with_jobs() as session:
            for _ in range(29):
                cursors.append(list_jobs(session, replace(page_query, cursor=cursors[-1])).next_cursor)
        # Twice 11 of two statuses, each once more by its id. Where few have a figure still, all of them are sorted.
        most = 60 if order.removeprefix("-") in _NO_FIGURES else 150
        for number in (0, 3, 7, 28):  # with figures, where they end, without them
            with subtests.test(filter=job_filter, order=order, page=number):
                plan, rows = plan_of(sessions_with_jobs, engine, replace(page_query, limit=10, cursor=cursors[number]))
                assert re.search(index, plan), plan
                assert "Seq Scan" not in plan
                assert rows <= most, plan


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
    assert (count(), count(statuses=some), count(owner="user-1")) == (MANY, MANY / 2, MANY / 20)
    assert count(statuses=some, search="name-7", paused=False) == len(
        every_id(sessions_with_jobs, JobFilter(statuses=some, search="name-7", paused=False), "created_at", limit=500)
    )
    assert count(project="none") == 0
    monkeypatch.setattr(listing, "MOST_COUNTED", 100)
    assert (count(), count(owner="user-1", name="Name-1")) == (101, 30)


def test_a_search_finds_jobs_by_id_name_owner_data_network_and_labels(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    cases = {
        "name-17": "name = 'Name-17'",
        "000000000123": "id = '000000000123'",
        "User-11": "owner = 'user-11'",
        "/DATA/set_29": "spec #>> '{dataset,source}' = '/data/Set_29'",
        "net%39": "spec #>> '{model,name}' = 'models:net%39'",
        "tEam-42": "labels ->> 'team' = 'Team-42'",
        "stage": "true",
        "%": "true",  # of all models
        "data_set": "false",
        "teamTeam": "false",
        "x000": "false",
        "\\": "false",
    }
    for search, condition in cases.items():
        with subtests.test(search=search):
            job_ids = every_id(sessions_with_jobs, JobFilter(search=search), "-created_at", limit=500)
            assert job_ids == in_one_sort(sessions_with_jobs, condition, "-created_at")
            assert bool(job_ids) == (condition != "false")


def test_a_search_finds_a_new_job_by_non_ascii_letters_in_any_case(sessions_with_jobs: Sessions) -> None:
    with sessions_with_jobs.begin() as session:
        session.execute(
            text(
                "INSERT INTO jobs (id, name, owner, status, spec, plan, labels, gpus, priority)"
                " VALUES ('later', 'ÄÖ-Ñ', 'me', 'queued', '{}', '{}', '{}', 1, 50)"
            )
        )
    for search in ("äö", "Äö-ñ", "ER"):
        assert "later" in every_id(sessions_with_jobs, JobFilter(search=search), "-created_at", limit=500)


def test_a_search_over_too_many_jobs_is_refused(sessions_with_jobs: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    with sessions_with_jobs.begin() as session:
        session.execute(text("UPDATE job_texts SET text = repeat(text, 200)"))
    monkeypatch.setattr(text_search, "SEARCH_LIMIT_S", 0.001)
    with sessions_with_jobs() as session, pytest.raises(TooMuchToSearch):
        list_jobs(session, ListQuery(JobFilter(search="nobody")))
