"""The list of jobs in groups with equal values of some fields. Called by the api.

The groups whose jobs are the newest come first. Each page reads all jobs that match the filter, for a limited time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, collate, func, literal, select
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page, page_of
from jobs.db.tables import Job
from jobs.db.text_search import limited_search
from jobs.lifecycle.field_values import value_of
from jobs.lifecycle.listing import JobFilter, ListQuery
from jobs.model.states import Status
from jobs.model.where import equal_to
from jobs.views.job_groups import GroupMetric, JobGroup

ALL_JOBS = JobFilter()


@dataclass(frozen=True)
class GroupQuery:
    """A request for a page of groups: of which jobs, by which fields, and the metrics to sum up."""

    by: tuple[str, ...]
    filter: JobFilter = ALL_JOBS
    metrics: tuple[str, ...] = ()
    limit: int = 50
    cursor: str | None = None

    @property
    def identity(self) -> str:
        """The list to which its cursors belong."""
        metrics = self.metrics if len(self.metrics) > 1 else next(iter(self.metrics), None)  # older cursors stay valid
        return json.dumps(["groups", self.by, metrics, ListQuery(self.filter).identity])


def list_groups(session: Session, query: GroupQuery) -> Page[JobGroup]:
    """A page of groups. Raises `InvalidCursor`, `TooMuchToSearch`, `WrongPattern`, `UnknownField`."""
    fields = [value_of(name).json.label(f"value_{place}") for place, name in enumerate(query.by)]
    metrics: list[ColumnElement[Any]] = [
        value_of(f"metrics.{name}").own.label(f"metric_{place}") for place, name in enumerate(query.metrics)
    ]
    jobs = select(*fields, *metrics, Job.status, Job.created_at, _place().label("place"))
    conditions = query.filter.conditions()
    if query.filter.statuses:
        conditions.append(Job.status.in_(query.filter.statuses))
    matching = jobs.where(*conditions).subquery()
    values, figures = list(matching.c)[: len(fields)], list(matching.c)[len(fields) : len(fields) + len(metrics)]
    newest = func.max(matching.c.place)
    groups = select(
        *(cast(value, Text) for value in values), newest.label("place"), func.max(matching.c.created_at), func.count(),
        *(func.count().filter(matching.c.status == status) for status in Status),
        *(of_metric(figure) for figure in figures for of_metric in (func.count, func.avg, func.min, func.max)),
    ).group_by(*values)  # fmt: skip
    if query.cursor is not None:
        (place,) = cursors.decode(session, query.cursor, by=BY_NAME, of=query.identity)
        groups = groups.having(newest < literal(place, Text))
    with query.filter.limited(session), limited_search(session, True, field="by"):
        rows = session.execute(groups.order_by(newest.desc()).limit(query.limit + 1)).all()
    page = page_of(
        session, rows, by=BY_NAME, limit=query.limit, of=query.identity, position=lambda row: (str(row.place),)
    )
    return Page([_group(query, row) for row in page.items], page.next_cursor)


def _place() -> ColumnElement[str]:
    """The place of a job among all, from the oldest to the newest, as a text that no other job has."""
    at = func.to_char(func.timezone("UTC", Job.created_at), "YYYYMMDDHH24MISSUS")
    return collate(at + Job.id, "C")


def _group(query: GroupQuery, row: Sequence[Any]) -> JobGroup:
    fields, statuses = len(query.by), len(Status)
    texts, (_, newest_at, jobs) = row[:fields], row[fields : fields + 3]
    counts, figures = row[fields + 3 : fields + 3 + statuses], row[fields + 3 + statuses :]
    metrics = [_metric(name, *figures[4 * place : 4 * place + 4]) for place, name in enumerate(query.metrics)]
    return JobGroup(
        values=[None if text is None else json.loads(text) for text in texts],
        where=_where(query.by, texts),
        jobs=jobs,
        statuses={status: count for status, count in zip(Status, counts, strict=True) if count},
        newest_at=newest_at,
        metric=next(iter(metrics), None),
        metrics=metrics,
    )


def _where(by: Sequence[str], texts: Sequence[str | None]) -> list[str]:
    return [
        equal_to(name, None if text is None else json.loads(text, parse_float=Decimal))
        for name, text in zip(by, texts, strict=True)
    ]


def _metric(name: str, n: int, *figures: Decimal | None) -> GroupMetric:
    mean, least, greatest = (None if figure is None else float(figure) for figure in figures)
    return GroupMetric(name=name, n=n, mean=mean, min=least, max=greatest)
