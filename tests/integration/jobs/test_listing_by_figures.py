"""The list of jobs by their figures, and searched: every page of every order, and how it is found."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

from jobs.db import text_search
from jobs.db.engine import Sessions
from jobs.db.text_search import TooMuchToSearch
from jobs.lifecycle.list_sorts import FieldOrder, Order
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.model.states import Status
from tests.integration.jobs.paging import every_id, in_one_sort, plan_of, store_all

JOBS = 3000
METRIC = "metrics.val/iou.x"
# Of the succeeded ones (every fourth) four in five have an accuracy; of all, eight in nine have a plan.
_JOBS = text("""
    INSERT INTO jobs (id, name, owner, status, spec, plan, summary, labels, gpus, priority, created_at, started_at,
        ended_at, checkpoint_bytes, artifact_bytes, metrics)
    SELECT lpad(n::text, 12, '0'), 'Name-' || n % 50, 'user-' || n % 20,
        (ARRAY['succeeded', 'failed', 'cancelled', 'queued'])[1 + n % 4],
        jsonb_build_object('dataset', jsonb_build_object('source', '/data/Set_' || n % 30),
            'model', jsonb_build_object('name', 'models:net%' || n % 40)),
        CASE WHEN n % 9 = 0 THEN '{}' ELSE jsonb_build_object(
            'global_batch', (32 * (n % 11))::bigint << n % 30, 'learning_rate', 0.1 / (1 + n % 13)) END,
        CASE WHEN n % 4 = 0 THEN jsonb_build_object('val_accuracy', CASE WHEN n % 5 > 0 THEN n % 17 / 17.0 END,
            'val_loss', n % 19, 'train_samples_per_s', 1e3 / (1 + n % 23)) END,
        jsonb_build_object('team', 'Team-' || n % 100, 'Stage', 'x'), 1 + n % 8, 50,
        CAST(:start AS timestamptz) + n / 3 * interval '1 second',
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 977) * interval '1 minute' END,
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 983) * interval '1 hour 0.001234 seconds' END,
        CASE WHEN n % 3 > 0 THEN n % 29 * 1000000000::bigint END,
        CASE WHEN n % 5 > 0 THEN n % 31 * 500000000::bigint END,
        CASE WHEN n % 7 < 5 THEN jsonb_build_object(:metric, jsonb_build_object('last', n,
            'best', CASE WHEN n % 6 > 0 THEN n % 37 / 37.0 - 0.5 END, 'best_epoch', 3)) ELSE '{}' END
    FROM generate_series(1, :jobs) AS n
""").bindparams(metric=METRIC.removeprefix("metrics."))
FIGURES = {
    "stored": "greatest(checkpoint_bytes + artifact_bytes, checkpoint_bytes, artifact_bytes, 0)",
    "batch_size": "(plan -> 'global_batch')::bigint",
    "learning_rate": "(plan -> 'learning_rate')::float8",
    "val_accuracy": "(summary ->> 'val_accuracy')::float8",
    "val_loss": "(summary -> 'val_loss')::float8",
    "train_samples_per_s": "(summary -> 'train_samples_per_s')::float8",
    METRIC: "(metrics #>> '{val/iou.x,best}')::float8",
}
ORDERS: tuple[Order | FieldOrder, ...] = (
    "-batch_size", "batch_size", "-learning_rate", "learning_rate", "-val_accuracy", "val_accuracy", "-val_loss",
    "val_loss", "-train_samples_per_s", "train_samples_per_s", "-gpus", "gpus", "-duration", "duration",
    "-stored", "stored", METRIC, f"-{METRIC}",
)  # fmt: skip


@pytest.fixture
def sessions_with_jobs(sessions: Sessions, engine: Engine) -> Sessions:
    store_all(sessions, engine, _JOBS, JOBS)
    return sessions


def in_order(sessions: Sessions, condition: str, order: Order | FieldOrder) -> list[str]:
    """The ids as one sort of all rows has them: rows without a figure last, unfinished jobs as the longest."""
    column = order.removeprefix("-")
    key = FIGURES.get(column, "ended_at - started_at" if column == "duration" else column)
    return in_one_sort(sessions, condition, order, key=key, is_nullable=column in FIGURES)


def test_all_pages_together_are_sorted_by_every_figure(sessions_with_jobs: Sessions, subtests: pytest.Subtests) -> None:
    for order in ORDERS:
        with subtests.test(order=order):
            job_ids = every_id(sessions_with_jobs, JobFilter(), order, limit=451)
            assert len(job_ids) == JOBS
            assert job_ids == in_order(sessions_with_jobs, "true", order)


def test_all_filtered_pages_together_are_sorted_by_figures(
    sessions_with_jobs: Sessions, subtests: pytest.Subtests
) -> None:
    filters = {
        "status = 'succeeded'": JobFilter(statuses=frozenset({Status.SUCCEEDED})),
        "status IN ('succeeded', 'failed')": JobFilter(statuses=frozenset({Status.SUCCEEDED, Status.FAILED})),
        "owner = 'user-8' AND status IN ('succeeded', 'queued')": JobFilter(
            search="USER-8", statuses=frozenset({Status.SUCCEEDED, Status.QUEUED})
        ),
    }
    orders: tuple[Order | FieldOrder, ...] = (
        "val_accuracy", "-val_accuracy", "-batch_size", "-duration", "-created_at", METRIC, f"-{METRIC}",
    )  # fmt: skip
    for condition, job_filter in filters.items():
        for order in orders:
            with subtests.test(condition=condition, order=order):
                job_ids = every_id(sessions_with_jobs, job_filter, order, limit=31)
                assert len(job_ids) > 31
                assert job_ids == in_order(sessions_with_jobs, condition, order)


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
            assert job_ids == in_order(sessions_with_jobs, condition, "-created_at")
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


# The index that may find a page.
ANY: frozenset[Status] = frozenset()
FAILED, SUCCEEDED = frozenset({Status.FAILED}), frozenset({Status.SUCCEEDED})
PLANS: dict[tuple[Order, frozenset[Status]], str] = {
    ("-gpus", ANY): "ix_jobs_gpus",
    ("-duration", ANY): "ix_jobs_duration",
    ("duration", ANY): "ix_jobs_duration",
    ("-stored", ANY): "ix_jobs_stored",
    ("stored", ANY): "ix_jobs_stored",
    ("-val_accuracy", ANY): "ix_jobs_val_accuracy",
    ("val_accuracy", ANY): "ix_jobs_val_accuracy",
    ("val_loss", ANY): "ix_jobs_val_loss",
    ("-train_samples_per_s", ANY): "ix_jobs_train_samples_per_s",
    ("-batch_size", ANY): "ix_jobs_batch_size",
    ("learning_rate", ANY): "ix_jobs_learning_rate",
    ("-val_accuracy", FAILED): "ix_jobs_val_accuracy",  # none of which has one
    ("val_loss", SUCCEEDED): "ix_jobs_val_loss",
}


def test_the_first_and_late_pages_of_figures_are_found_by_an_index(
    sessions_with_jobs: Sessions, engine: Engine, subtests: pytest.Subtests
) -> None:
    for (order, statuses), index in PLANS.items():
        page_query, cursors = ListQuery(JobFilter(statuses), order, 100 // (1 + 3 * len(statuses))), [None]
        with sessions_with_jobs() as session:
            for _ in range(29):
                cursors.append(list_jobs(session, replace(page_query, cursor=cursors[-1])).next_cursor)
        for number in (0, 3, 7, 28):  # with figures, where they end, without them
            with subtests.test(order=order, statuses=statuses, page=number):
                plan, rows = plan_of(sessions_with_jobs, engine, replace(page_query, limit=10, cursor=cursors[number]))
                assert index in plan
                assert "Seq Scan" not in plan
                assert rows <= 150, plan  # where few have a figure still, the database puts all of these in order
