"""Fields of jobs in SQL: the value of each is that of its column, in filters, sorts and groups."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, text, update

from api.row_views import job_view
from jobs.db import text_search
from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.db.text_search import TooMuchToSearch
from jobs.lifecycle.field_values import value_of
from jobs.lifecycle.job_groups import GroupQuery, list_groups
from jobs.lifecycle.job_usage import usage_of
from jobs.lifecycle.listing import JobFilter, ListQuery, WrongPattern, list_jobs
from jobs.model.job_fields import FIELDS, Kind
from jobs.model.states import Status
from jobs.model.where import parsed
from jobs.views.job_columns import columns_of
from jobs.views.job_groups import JobGroup
from tests.integration.jobs.job_rows import a_job
from tests.integration.jobs.paging import every_id

PARAMS: list[dict[str, Any]] = [
    {},
    {"lr": 0.1, "net.depth": 3, "net": {"depth": 4, "a.b": "x"}, "tags": ["a or b", 1], "flag": True, "n": "12"},
    {"lr": 1e-05, "net": {"depth": 5, "a": {"b": "y"}, "name": "big"}, "n": 12, "flag": False, "none": None},
    {"lr": "0.5", "net": "vgg", "tags": {"b": 1}, "n": 9, "odd \"name\" = x": 1, "big": 2**62},
]  # fmt: skip
SPEC_FIELDS = [
    "spec.batch_size", "spec.dataset.source", "spec.dataset", "spec.dataset.text_length", "spec.dataset.balance",
    "spec.dataset.samples", "spec.model.name", "spec.optimizer", "spec.optimizer.name", "spec.optimizer.momentum",
    "spec.schedule", "spec.allreduce.compression", "spec.goal", "spec.goal.metric", "spec.labels.a.b", "spec.after",
    "spec.params", "spec.params.lr", "spec.params.net.depth", "spec.params.net.a.b", "spec.params.net.name",
    "spec.params.tags", "spec.params.tags.0", "spec.params.tags.b", "spec.params.flag", "spec.params.n",
    "spec.params.none", 'spec.params.odd "name" = x', "spec.params.big", "spec.env.X", "spec.early_stopping.patience",
]  # fmt: skip
OTHER_FIELDS = [
    "metrics.val_loss", "metrics.val_accuracy", "metrics.a/b.c", "last.val_loss", "last.test_loss", "test.accuracy",
    "low.val_loss", "high.val_loss", "mean.val_loss", "low.a/b.c", "mean.test_loss", "high.val_accuracy",
    "label.a.b", "label.team", "label.size", "label.e.Q/1",
]  # fmt: skip


@pytest.fixture
def job_ids(sessions: Sessions) -> list[str]:
    """Jobs with different params, labels, figures and times, the newest first."""
    ids = []
    for number in range(24):
        labels = {"a.b": f"x{number % 3}", "size": str(number % 12)} | ({"team": "a or b"} if number % 2 else {})
        labels |= {"e.Q/1": "Ä \"'"} if number % 5 == 0 else {}
        spec: dict[str, Any] = {"labels": labels, "name": f"Job-{number % 7}", "gpus": 1 + number % 3}
        if number % 4:
            spec |= {"batch_size": 32 * (1 + number % 5), "optimizer": {"name": "sgd", "momentum": 0.9}}
            ids.append(a_job(sessions, **spec))
            params = PARAMS[number % 4]
            with sessions.begin() as session:  # as a row of a script has them
                row = session.get_one(Job, ids[-1])
                row.spec = {**row.spec, "params": params, "env": {"X": "1"}}
        else:
            ids.append(a_job(sessions, **spec))
    with sessions.begin() as session:
        session.execute(text(_FIGURES))
        session.execute(text(_ATTEMPTS))
    return ids[::-1]


_FIGURES = """
    WITH numbered AS (SELECT id AS job_id, row_number() OVER (ORDER BY created_at, id) AS n FROM jobs)
    UPDATE jobs SET
        metrics = CASE WHEN n % 3 > 0 THEN jsonb_build_object('val_loss', jsonb_build_object('best', n % 5 / 5.0,
            'last', n, 'best_epoch', 1, 'low', n / 10.0, 'high', n * 2, 'mean', n / 4.0),
            'a/b.c', jsonb_build_object('best', CASE WHEN n % 2 > 0 THEN n END,
            'last', NULL, 'best_epoch', NULL)) ELSE '{}' END,
        summary = CASE WHEN n % 4 > 0 THEN jsonb_build_object('val_accuracy', n / 100.0, 'val_loss', 7.5,
            'test_accuracy', 0.25, 'test_loss', NULL, 'train_samples_per_s', CASE WHEN n % 8 > 4 THEN n * 10.5 END) END,
        progress = CASE WHEN n % 5 > 0 THEN jsonb_build_object('samples_per_s', n * 3.25) END,
        created_at = timestamptz '2030-01-01' + n / 2 * interval '1 second' + n % 3 * interval '0.1234 seconds',
        started_at = CASE WHEN n % 6 > 0 THEN timestamptz '2030-01-02' + n * interval '0.5 seconds' END,
        ended_at = CASE WHEN n % 6 > 2 THEN timestamptz '2030-01-02' + n * interval '70.000001 seconds' END,
        status = CASE WHEN n % 6 > 2 THEN 'succeeded' ELSE 'queued' END,
        checkpoint_bytes = CASE WHEN n % 3 > 0 THEN n * 1000000000::bigint END,
        artifact_bytes = CASE WHEN n % 4 > 1 THEN n END,
        starred = n % 4 = 0, archived = n % 3 = 0, paused_at = CASE WHEN n % 5 = 0 THEN now() END,
        notes = CASE WHEN n % 3 > 0 THEN 'Note ' || n % 4 END, notes_at = CASE WHEN n % 6 > 0 THEN now() END
    FROM numbered WHERE job_id = id"""


_ATTEMPTS = """
    INSERT INTO attempts (job_id, number, host, shares, gpus, lease_expires_at, created_at, ended_at)
    SELECT id, number, 'h1', jsonb_build_array(
            jsonb_build_object('host', 'h' || number, 'slots', jsonb_build_array(0)),
            jsonb_build_object('host', 'h' || priority, 'slots', jsonb_build_array(1))),
        2, now(), created_at, created_at + number * gpus * interval '90 minutes'
    FROM jobs, generate_series(1, gpus - 1) AS number"""


def read_column(document: dict[str, Any], field: str) -> Any:
    """The value of a field in the API's JSON of a job; JSON and not text for lists and objects."""
    if field in ("starred", "archived", "notes"):
        return document[field]
    if field == "paused":
        return document["paused_at"] is not None
    value = columns_of([field])[1][1](document)
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value


def test_a_field_has_the_value_of_its_column(sessions: Sessions, job_ids: list[str], subtests: pytest.Subtests) -> None:
    for field in [*FIELDS, *SPEC_FIELDS, *OTHER_FIELDS]:
        with subtests.test(field=field), sessions() as session:
            rows = session.execute(select(Job, value_of(field).json)).all()
            usage = usage_of(session, job_ids, None)
            assert len(rows) == len(job_ids)
            for job, value in rows:
                expected = read_column(job_view(job, usage=usage[job.id]).model_dump(mode="json"), field)
                if field == "duration" and job.started_at and not job.ended_at:
                    expected = pytest.approx(expected, abs=20)
                assert value == expected
                assert isinstance(value, bool) == isinstance(expected, bool)


def compared(document: dict[str, Any], field: str) -> Any:
    """The value of a field as it compares with others: times as times."""
    value = read_column(document, field)
    return datetime.fromisoformat(value) if FIELDS.get(field) is Kind.TIME and value else value


Test = Callable[[Callable[[str], Any]], bool]


def less(value: Any, limit: Any) -> bool:
    """Whether a value is there and less."""
    return value is not None and value < limit


AT = datetime(2030, 1, 1, 0, 0, 5, tzinfo=UTC)
CONDITIONS: dict[str, Test] = {
    "gpus>=2": lambda of: of("gpus") >= 2,
    "metrics.val_loss < 0.4 or starred": lambda of: less(of("metrics.val_loss"), 0.4) or of("starred"),
    "high.val_loss>8 or mean.val_loss<1": lambda of: (of("high.val_loss") or 0) > 8 or less(of("mean.val_loss"), 1),
    "name ~ ^JOB-[0-3]$": lambda of: of("name")[-1] in "0123",
    "notes !~ 3": lambda of: "3" not in (of("notes") or ""),
    "!notes": lambda of: of("notes") is None,
    "starred=false": lambda of: not of("starred"),
    "paused != true": lambda of: not of("paused"),
    'label.team = "a or b"': lambda of: of("label.team") == "a or b",
    "label.size<10": lambda of: int(of("label.size")) < 10,
    "spec.params.n=12": lambda of: of("spec.params.n") in (12, "12"),
    'spec.params.n="12"': lambda of: of("spec.params.n") == "12",
    "spec.params.n>=9.5": lambda of: of("spec.params.n") in (12, "12"),
    "spec.params.lr<0.2": lambda of: of("spec.params.lr") in (0.1, 1e-05),
    "spec.params.flag=false": lambda of: of("spec.params.flag") is False,
    '"spec.params.tags" = [ "a\\u0020or b", 1.0 ]': lambda of: of("spec.params.tags") == ["a or b", 1],
    "spec.params.net ~ VGG": lambda of: of("spec.params.net") == "vgg",
    "spec.params.net.a.b >= y": lambda of: of("spec.params.net.a.b") == "y",
    "created<=2030-01-01": lambda of: True,
    "created>2030-01-01T00:00:05": lambda of: of("created") > AT,
    "created<=2030-01-01T01:00:05+01:00": lambda of: of("created") <= AT,
    "ended": lambda of: of("ended") is not None,
    "duration>100": lambda of: (of("duration") or 0) > 100,
}


def test_a_condition_finds_the_jobs_for_which_it_holds(
    sessions: Sessions, job_ids: list[str], subtests: pytest.Subtests
) -> None:
    with sessions() as session:
        documents = {job.id: job_view(job).model_dump(mode="json") for job in session.scalars(select(Job))}
    for condition, holds in CONDITIONS.items():
        with subtests.test(condition=condition):
            matching = {job_id for job_id, document in documents.items() if holds(partial(compared, document))}
            job_filter = JobFilter(where=(parsed(condition),))
            assert set(every_id(sessions, job_filter, "-created_at", limit=7)) == matching
            both = JobFilter(where=(parsed(condition), parsed("gpus=2")))
            assert set(every_id(sessions, both, "name", limit=7)) == {
                job_id for job_id in matching if documents[job_id]["gpus"] == 2
            }


def test_a_pattern_that_is_none_is_refused_with_its_fault(sessions: Sessions) -> None:
    for pattern, fault in {"((a": "parentheses", "(a{255}){255}": "regular expression", "*": "quant"}.items():
        job_filter = JobFilter(where=(parsed("name ~ x"), parsed(f"starred or notes !~ {pattern}")))
        with sessions() as session, pytest.raises(WrongPattern, match=fault) as caught:
            list_jobs(session, ListQuery(job_filter))
        assert pattern in str(caught.value)


def test_a_condition_that_takes_too_long_is_stopped(
    sessions: Sessions, job_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.begin() as session:
        session.execute(update(Job).values(notes="ab" * 50 + "c!", notes_at=text("now()")))
    monkeypatch.setattr(text_search, "SEARCH_LIMIT_S", 0.05)
    slow = JobFilter(where=(parsed(r"notes ~ (.*)(.*)(.*)(.*)\1\2\3\4!"),))
    with sessions() as session, pytest.raises(TooMuchToSearch, match="this took longer") as caught:
        list_jobs(session, ListQuery(slow))
    assert caught.value.field == "where"


GROUPED = [
    ("owner",), ("spec.params.n",), ("spec.params.tags", "starred"), ("status", "label.team", "gpus"), ("created",),
    ("metrics.val_loss",), ("spec.params.flag",), ("notes",), ("study",), ("spec.params.net", "paused"), ("rate",),
]  # fmt: skip


def test_groups_are_all_jobs_with_equal_values_and_their_conditions_find_them(
    sessions: Sessions, job_ids: list[str], subtests: pytest.Subtests
) -> None:
    with sessions() as session:
        documents = {job.id: job_view(job).model_dump(mode="json") for job in session.scalars(select(Job))}
    for by in GROUPED:
        with subtests.test(by=by), sessions() as session:
            groups: list[JobGroup] = []
            cursor = None
            while True:
                page = list_groups(session, GroupQuery(by, metrics=("val_loss", "a/b.c"), limit=2, cursor=cursor))
                groups += page.items
                if (cursor := page.next_cursor) is None:
                    break
            assert sum(group.jobs for group in groups) == len(documents)
            newest = [group.newest_at for group in groups]
            assert newest == sorted(newest, reverse=True)
            for group in groups:
                members = [
                    one for one in documents.values() if [read_column(one, field) for field in by] == group.values
                ]
                selected = JobFilter(where=tuple(map(parsed, group.where)))
                found = every_id(sessions, selected, "-created_at", limit=50)
                if by != ("spec.params.n",):  # 12 finds the text "12" too, which is another group
                    assert sorted(found) == sorted(one["id"] for one in members)
                assert group.jobs == len(members) == sum(group.statuses.values())
                assert group.metric == group.metrics[0]
                assert [metric.name for metric in group.metrics] == ["val_loss", "a/b.c"]
                for metric in group.metrics:
                    read = [read_column(one, f"metrics.{metric.name}") for one in members]
                    values = [value for value in read if value is not None]
                    mean = pytest.approx(sum(values) / len(values)) if values else None
                    figures = (len(values), min(values, default=None), max(values, default=None), mean)
                    assert (metric.n, metric.min, metric.max, metric.mean) == figures


def test_groups_are_of_the_jobs_that_a_filter_finds(sessions: Sessions, job_ids: list[str]) -> None:
    job_filter = JobFilter(statuses=frozenset({Status.SUCCEEDED}), where=(parsed("gpus>1"),))
    with sessions() as session:
        (group,) = list_groups(session, GroupQuery(("owner",), job_filter)).items
    assert group.values == ["me"]
    assert group.metric is None
    assert group.jobs == len(every_id(sessions, job_filter, "-created_at", limit=50)) == group.statuses["succeeded"]
