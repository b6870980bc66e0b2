"""The list of jobs: filtered, in a total order, page by page. Called by the api.

Pages go by key (what the list is sorted by, then creation time and id), so that page 1,000 costs what page 1 costs and
no job is seen twice. Every order has an index, and so has every filter in the order of creation, except two: of labels
the database takes the index on labels where few jobs have them, and walks along the order where many do; and what is
searched for is looked up in the texts of all jobs, until these are many, and then walked along the order for as well.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVarTuple
from unicodedata import normalize

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Text,
    any_,
    bindparam,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import Page, Position, page_of
from jobs.db.tables import Job, JobText
from jobs.db.text_search import contains, patiently
from jobs.lifecycle.list_sorts import KEYS, NOTHING, Order, SortKey, text_of
from jobs.model.states import Status

Columns = TypeVarTuple("Columns")

_FEW = 2000  # jobs: of more, a walk along any order soon meets as many as a page has


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
    search: str | None = None  # with this text in the name, id, owner, source, model, or a label, whatever its case
    found: tuple[str, ...] | None = None  # the ids of all that the search finds, where these are few

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
        if self.found is not None:
            found.append(Job.id == any_(literal(list(self.found), ARRAY(Text))))
        elif self.search is not None:
            found.append(Job.id.in_(_with_text(self.search)))
        return found


@dataclass(frozen=True)
class Wanted:
    """A page of the list: which jobs, in which order, how many at most, and behind which one."""

    filter: JobFilter = JobFilter()
    order: Order = "-created_at"
    limit: int = 50
    cursor: str | None = None

    @property
    def key(self) -> SortKey | None:
        """What the list is sorted by, where it is not the time of creation alone."""
        return KEYS[self.order.removeprefix("-")]

    @property
    def falls(self) -> bool:
        """Whether it goes from the greatest to the least: through all keys, so that one index serves both ways."""
        return self.order.startswith("-")

    @property
    def identity(self) -> str:
        """What its cursors belong to."""
        of = self.filter
        filters = [
            sorted(of.statuses), sorted(of.labels), of.name, of.owner, of.project, of.paused, of.study, of.search,
        ]  # fmt: skip
        return json.dumps(["jobs", self.order, *filters, *map(str, (of.since, of.until))])

    def position(self) -> Position | None:
        """Behind which keys it begins; None at the start of the list. Raises `InvalidCursor`."""
        return None if self.cursor is None else cursors.decode(self.cursor, of=self.identity)

    def columns(self) -> list[ColumnElement[Any]]:
        """What makes its order: no two jobs are equal in all of it."""
        own: list[Any] = [] if self.key is None else [self.key.sql]
        return [*own, Job.created_at, Job.id]


def list_jobs(session: Session, wanted: Wanted) -> Page[Job]:
    """A page of jobs. Raises `InvalidCursor`, `TooMuchToSearch`."""
    with patiently(session, wanted.filter.search):
        query = _in_order(select(Job), _with_few(session, wanted))
        found = session.scalars(query).all()  # one more, to know whether there is a next page
    return page_of(found, limit=wanted.limit, of=wanted.identity, position=partial(_position, wanted.key))


def _with_few(session: Session, wanted: Wanted) -> Wanted:
    """The same page, with the ids of what is searched for where these are few: then their texts are read only once."""
    search = wanted.filter.search
    if search is None:
        return wanted
    found = session.scalars(_with_text(search).limit(_FEW + 1)).all()
    return wanted if len(found) > _FEW else replace(wanted, filter=replace(wanted.filter, found=tuple(found)))


def _with_text(search: str) -> Select[str]:
    """As it was typed, for sources are kept as they are; and composed, as names and labels are."""
    typed = {search, normalize("NFC", search)}
    return select(JobText.job_id).where(or_(*(contains(JobText.text, text) for text in sorted(typed))))


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
    parts = _parts(wanted)
    if len(parts) == 1:
        return query.where(*parts[0]).order_by(*_sorted(wanted.columns(), wanted)).limit(wanted.limit + 1)
    some = _first_of_all(parts, wanted)
    return query.join(some, some.c.id == Job.id).order_by(*_merged(wanted.columns(), wanted))


def _parts(wanted: Wanted) -> list[list[ColumnElement[bool]]]:
    """The conditions of each part of the list that an index has in its order.

    None has the jobs of several statuses at once, nor those with and without a value in the order in which they come.
    """
    filters = wanted.filter.conditions()
    statuses = [[Job.status == status] for status in sorted(wanted.filter.statuses)] or [[]]
    return [[*status, *filters, *stretch] for status in statuses for stretch in _stretches(wanted)]


def _stretches(wanted: Wanted) -> list[list[ColumnElement[bool]]]:
    """What is left of the list: of the jobs with a value, and of those without one, which come behind them."""
    position = wanted.position()
    behind = [] if position is None else [_behind(wanted, position)]
    if wanted.key is None or not wanted.key.is_nullable:
        return [behind]
    valued, unvalued = wanted.key.sql.is_not(None), wanted.key.sql.is_(None)
    if position is not None and position[0] == NOTHING:
        return [[unvalued, *behind]]
    return [[valued, *behind], [unvalued]]


def _first_of_all(parts: Sequence[Sequence[ColumnElement[bool]]], wanted: Wanted) -> Subquery:
    """The ids of a page, and of one more, of the first of each part: whole rows are read of these alone."""
    keys = [column.label(f"key_{place}") for place, column in enumerate(wanted.columns())]
    most, order = wanted.limit + 1, _sorted(wanted.columns(), wanted)
    firsts = [select(*keys).where(*part).order_by(*order).limit(most).subquery() for part in parts]
    merged = list(union_all(*(select(first) for first in firsts)).subquery().c)
    return select(merged[-1].label("id")).order_by(*_merged(merged, wanted)).limit(most).subquery()


def _sorted(columns: Sequence[ColumnElement[Any]], wanted: Wanted) -> list[ColumnElement[Any]]:
    return [column.desc() if wanted.falls else column.asc() for column in columns]


def _merged(columns: Sequence[ColumnElement[Any]], wanted: Wanted) -> list[ColumnElement[Any]]:
    """The order of several parts together."""
    return [column.nulls_last() for column in _sorted(columns, wanted)]


def _behind(wanted: Wanted, position: Position) -> ColumnElement[bool]:
    *own, created_at, job_id = position
    columns = wanted.columns()
    values: list[Any] = [datetime.fromisoformat(str(created_at)), str(job_id)]
    if wanted.key is not None and wanted.key.is_nullable and own[0] == NOTHING:
        columns = columns[1:]
    elif wanted.key is not None:
        values.insert(0, wanted.key.bound(own[0]))
    key, after = tuple_(*columns), tuple_(*values)
    return key < after if wanted.falls else key > after


def _position(key: SortKey | None, job: Job) -> Position:
    own = () if key is None else (key.of(job),)
    return *own, text_of(job.created_at), job.id
