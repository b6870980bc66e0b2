"""The list of jobs: filtered, in a total order, page by page. Called by the api.

Pages go by key (what the list is sorted by, then creation time and id), so that page 1,000 costs what page 1 costs and
no job is seen twice. Every order has an index, and so has every filter in the order of creation, except labels: of
those the database takes the index on labels where few jobs have them, and walks along the order where many do.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVarTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    DateTime,
    Select,
    Subquery,
    Text,
    any_,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs import cursors
from jobs.cursors import Page, Position, page_of
from jobs.states import Status
from jobs.tables import Job

Order = Literal[
    "-created_at", "created_at", "-started_at", "started_at", "-ended_at", "ended_at",
    "-name", "name", "-priority", "priority",
]  # fmt: skip

Columns = TypeVarTuple("Columns")

# What has not happened yet comes after all that has.
_NOT_YET: ColumnElement[datetime] = literal_column("'infinity'::timestamptz", DateTime(timezone=True))
_KEYS: dict[str, ColumnElement[Any] | InstrumentedAttribute[Any]] = {
    "created_at": Job.created_at,
    "started_at": func.coalesce(Job.started_at, _NOT_YET),
    "ended_at": func.coalesce(Job.ended_at, _NOT_YET),
    "name": Job.name,
    "priority": Job.priority,
}
_TIMES = frozenset({"started_at", "ended_at"})


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are wanted: those that match every part that is given."""

    statuses: frozenset[Status] = frozenset()  # any of these
    labels: tuple[tuple[str, str], ...] = ()  # all of these
    name: str | None = None
    owner: str | None = None
    project: str | None = None
    paused: bool | None = None
    study: str | None = None  # its id
    since: datetime | None = None  # created then or later
    until: datetime | None = None  # created before

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL, but for the statuses."""
        found: list[ColumnElement[bool]] = [Job.labels.contains({key: value}) for key, value in self.labels]
        equal = (
            (Job.name, self.name),
            (Job.owner, self.owner),
            (Job.project, self.project),
            (Job.study_id, self.study),
        )
        found += [column == value for column, value in equal if value is not None]
        if self.paused is not None:
            found.append(Job.paused_at.is_not(None) if self.paused else Job.paused_at.is_(None))
        if self.since is not None:
            found.append(Job.created_at >= self.since)
        if self.until is not None:
            found.append(Job.created_at < self.until)
        return found


@dataclass(frozen=True)
class Wanted:
    """A page of the list: which jobs, in which order, how many at most, and behind which one."""

    filter: JobFilter = JobFilter()
    order: Order = "-created_at"
    limit: int = 50
    cursor: str | None = None

    @property
    def column(self) -> str:
        """What the list is sorted by."""
        return self.order.removeprefix("-")

    @property
    def falls(self) -> bool:
        """Whether it goes from the greatest to the least: through all keys, so that one index serves both ways."""
        return self.order.startswith("-")

    @property
    def identity(self) -> str:
        """What its cursors belong to."""
        of = self.filter
        filters = [sorted(of.statuses), sorted(of.labels), of.name, of.owner, of.project, of.paused, of.study]
        return json.dumps(["jobs", self.order, *filters, *map(str, (of.since, of.until))])

    def position(self) -> Position | None:
        """Behind which keys it begins; None at the start of the list. Raises `InvalidCursor`."""
        return None if self.cursor is None else cursors.decode(self.cursor, of=self.identity)

    def sort_keys(self) -> tuple[Any, ...]:
        """The columns of its order: no two jobs are equal in all of them."""
        own = () if self.column == "created_at" else (_KEYS[self.column],)
        return *own, Job.created_at, Job.id


def list_jobs(session: Session, wanted: Wanted) -> Page[Job]:
    """A page of jobs. Raises `InvalidCursor`."""
    found = session.scalars(_in_order(select(Job), wanted)).all()  # one more, to know whether there is a next page
    return page_of(found, limit=wanted.limit, of=wanted.identity, position=partial(_position, wanted.column))


class Seen(NamedTuple):
    """What says of a job whether its view changed: unless it is queued, its revision does."""

    id: str
    revision: int
    status: Status


def revisions(session: Session, wanted: Wanted) -> list[Seen]:
    """What is to be seen of the jobs that `list_jobs` reads, and of the one more. Raises `InvalidCursor`."""
    return [Seen(*row) for row in session.execute(_in_order(_SEEN, wanted))]


def revisions_of(connection: Connection, job_ids: Sequence[str]) -> list[Seen]:
    """What is to be seen of those of these jobs that there are, without reading the rest of them."""
    return [Seen(*row) for row in connection.execute(_SEEN_OF, {"ids": list(job_ids)})]


_SEEN = select(Job.id, Job.revision, Job.status)
_SEEN_OF = _SEEN.where(Job.id == any_(bindparam("ids", type_=ARRAY(Text))))  # one statement, however many they are


def _in_order(query: Select[*Columns], wanted: Wanted) -> Select[*Columns]:
    """The rows of a page, and one more."""
    conditions = [*wanted.filter.conditions(), *_behind(wanted)]
    statuses = sorted(wanted.filter.statuses)
    if len(statuses) > 1:
        some = _of_each(statuses, conditions, wanted)
        query = query.join(some, some.c.id == Job.id)
    else:
        query = query.where(*conditions, *(Job.status == status for status in statuses))
    return query.order_by(*_sorted(wanted)).limit(wanted.limit + 1)


def _of_each(statuses: list[Status], conditions: list[ColumnElement[bool]], wanted: Wanted) -> Subquery:
    """The first of each status: of several statuses at once no index has the order."""
    firsts = [
        select(Job.id)
        .where(Job.status == status, *conditions)
        .order_by(*_sorted(wanted))
        .limit(wanted.limit + 1)
        .subquery()
        for status in statuses
    ]
    return union_all(*(select(first.c.id) for first in firsts)).subquery()


def _sorted(wanted: Wanted) -> list[ColumnElement[Any]]:
    return [key.desc() if wanted.falls else key.asc() for key in wanted.sort_keys()]


def _behind(wanted: Wanted) -> list[ColumnElement[bool]]:
    position = wanted.position()
    if position is None:
        return []
    *first, created_at, job_id = position
    values = [_value(wanted.column, value) for value in first]
    after = tuple_(*values, datetime.fromisoformat(str(created_at)), str(job_id))
    key = tuple_(*wanted.sort_keys())
    return [key < after if wanted.falls else key > after]


def _value(column: str, stored: str | int) -> Any:
    if column not in _TIMES:
        return stored
    return _NOT_YET if stored == "" else datetime.fromisoformat(str(stored))


def _position(column: str, job: Job) -> Position:
    last = (job.created_at.astimezone(UTC).isoformat(), job.id)
    if column == "created_at":
        return last
    value = getattr(job, column)
    own = ("" if value is None else value.astimezone(UTC).isoformat()) if column in _TIMES else value
    return own, *last
