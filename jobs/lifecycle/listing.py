"""The list of jobs: filtered, in a total order, page by page. Called by the api.

A page begins after a key (the sort keys, then creation time and id). So page 1,000 costs as much as page 1, and no job
is seen twice. Every order of `jobs.lifecycle.list_sorts.Order` has an index; by other fields, and by several, the
database sorts all jobs. Every filter in the order of creation has an index too, with four exceptions:

- Labels. If few jobs have them, the database uses the index on labels. If many do, it reads in the order of the list.
- A study. Its jobs are few: the database finds them all and sorts them.
- A search. It reads the texts of all jobs first. If many match, it reads in the order of the list.
- Conditions (`where`) about any field. It reads in the order of the list, until a page is full.

    WrongPattern        a regular expression of a condition is none
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVarTuple
from unicodedata import normalize

from pydantic import TypeAdapter
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session, undefer

from jobs.db import cursors
from jobs.db.cursors import Page, page_of
from jobs.db.engine import cause_in_words
from jobs.db.tables import Job, JobText
from jobs.db.text_search import contains, limited_search
from jobs.lifecycle.field_values import condition_of, patterns_in
from jobs.lifecycle.list_sorts import (
    NOTHING,
    FieldOrder,
    Order,
    SortKey,
    Stored,
    behind,
    has_index,
    keys_of,
    positions_in,
)
from jobs.model.states import Status
from jobs.model.where import Where
from jobs.wording import shortened

Columns = TypeVarTuple("Columns")
Position = tuple[Stored, ...]

NO_STUDY = "none"  # no id is so: none has the letter o
MOST_COUNTED = 100_000
_FEW = 2000  # matches of a search; with more, reading in any order soon finds enough for a page


@dataclass(frozen=True)
class JobFilter:
    """Which jobs a list has. A job must match every part that is set."""

    statuses: frozenset[Status] = frozenset()  # any of these
    labels: tuple[tuple[str, str], ...] = ()  # all of these
    name: str | None = None
    owner: str | None = None
    project: str | None = None
    paused: bool | None = None
    study: str | None = None  # its id; NO_STUDY: jobs of no study
    starred: bool | None = None
    archived: bool | None = None
    since: datetime | None = None  # created then or later
    until: datetime | None = None  # created before
    search: str | None = (
        None  # with this text in the name, id, owner, source, model, a label or notes; its case does not matter
    )
    where: tuple[Where, ...] = ()  # all of these
    search_matches: tuple[str, ...] | None = None  # the ids of all jobs that the search finds, if they are few

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL, except the statuses."""
        conditions: list[ColumnElement[bool]] = [Job.labels.contains({key: value}) for key, value in self.labels]
        equal = (
            (Job.name, self.name),
            (Job.owner, self.owner),
            (Job.project, self.project),
            (Job.study_id, self.study if self.study != NO_STUDY else None),
        )
        conditions += [column == value for column, value in equal if value is not None]
        if self.paused is not None:
            conditions.append(Job.paused_at.is_not(None) if self.paused else Job.paused_at.is_(None))
        if self.study == NO_STUDY:
            conditions.append(Job.study_id.is_(None))
        if self.starred is not None:
            conditions.append(Job.starred.is_(self.starred))
        if self.archived is not None:
            # As the predicates of the indices have it: the database does not see that `IS false` is the same.
            conditions.append(and_(Job.archived) if self.archived else ~Job.archived)
        if self.since is not None:
            conditions.append(Job.created_at >= self.since)
        if self.until is not None:
            conditions.append(Job.created_at < self.until)
        if self.search_matches is not None:
            conditions.append(Job.id == any_(literal(list(self.search_matches), ARRAY(Text))))
        elif self.search is not None:
            conditions.append(Job.id.in_(_with_text(self.search)))
        return [*conditions, *map(condition_of, self.where)]

    @contextmanager
    def limited(self, session: Session) -> Iterator[None]:
        """Limit the time to read jobs by this filter, if it may read all. Raises `TooMuchToSearch`, `WrongPattern`."""
        with limited_search(session, self.search or self.where, field="where" if self.where else "search"):
            for where in self.where:
                _check_patterns(session, where)
            yield


@dataclass(frozen=True)
class ListQuery:
    """A request for a page of the list: which jobs, in which order, how many at most, and after which one."""

    filter: JobFilter = JobFilter()
    order: Order | FieldOrder = "-created_at"
    limit: int = 50
    cursor: str | None = None

    @cached_property
    def keys(self) -> tuple[SortKey, ...]:
        """The sort keys of the list. No two jobs are equal in all of them."""
        return keys_of(self.order)

    @property
    def reads_all(self) -> bool:
        """Whether the database has to read all jobs, because no index helps it."""
        return bool(self.filter.search or self.filter.where) or not has_index(self.order)

    @property
    def identity(self) -> str:
        """The list to which its cursors belong."""
        jobs = self.filter
        filters = [
            sorted(jobs.statuses), sorted(jobs.labels), jobs.name, jobs.owner, jobs.project, jobs.paused, jobs.study,
            jobs.search,
        ]  # fmt: skip
        newer: list[Any] = [] if jobs.starred is None else ["starred", jobs.starred]
        newer += [] if jobs.archived is None else ["archived", jobs.archived]  # older cursors stay valid
        newer += ["where", *map(str, jobs.where)] if jobs.where else []
        return json.dumps(["jobs", self.order, *filters, *map(str, (jobs.since, jobs.until)), *newer])

    @property
    def positions(self) -> TypeAdapter[Position]:
        """The kind of the list's positions."""
        return positions_in(self.order)

    def position(self, session: Session) -> Position | None:
        """The keys after which the page begins; None at the start of the list. Raises `InvalidCursor`."""
        if self.cursor is None:
            return None
        return cursors.decode(session, self.cursor, by=self.positions, of=self.identity)


def list_jobs(session: Session, page_query: ListQuery) -> Page[Job]:
    """A page of jobs. Raises `InvalidCursor`, `TooMuchToSearch`, `WrongPattern`."""
    by_field = not has_index(page_query.order)
    with page_query.filter.limited(session), limited_search(session, by_field, field="sort"):
        texts = [cast(key.sql, Text) for key in page_query.keys if key.of is None]
        columns = select(Job, *texts).options(undefer(Job.notes_start))
        query = _in_order(session, columns, _with_matches(session, page_query))
        rows = session.execute(query).all()  # one more, to know whether there is a next page
    page = page_of(
        session, rows, by=page_query.positions, limit=page_query.limit, of=page_query.identity,
        position=lambda row: _position(page_query.keys, *row),
    )  # fmt: skip
    return Page([row[0] for row in page.items], page.next_cursor)


def count_jobs(session: Session, jobs: JobFilter) -> int:
    """How many jobs match; one more than `MOST_COUNTED` if there are more. Raises `TooMuchToSearch`, `WrongPattern`."""
    statuses = [Job.status.in_(sorted(jobs.statuses))] if jobs.statuses else []
    some = select(Job.id).where(*statuses, *jobs.conditions()).limit(MOST_COUNTED + 1).subquery()
    with jobs.limited(session):
        return session.scalar(select(func.count()).select_from(some)) or 0


class WrongPattern(ValueError):
    """A regular expression of a condition is none."""

    def __init__(self, where: Where, pattern: str, fault: str) -> None:
        super().__init__(f"`{shortened(pattern)}`: {fault}")
        self.where = where


def _check_patterns(session: Session, where: Where) -> None:
    """Let the database read the regular expressions: it knows more than those of Python."""
    for pattern in patterns_in(where):
        try:
            session.execute(select(literal("", Text).bool_op("~*")(literal(pattern, Text))))
        except DataError as error:
            fault = cause_in_words(error).partition(": ")[2]  # without the name of its class
            raise WrongPattern(where, pattern, fault) from error


def _with_matches(session: Session, page_query: ListQuery) -> ListQuery:
    """The same query, with the ids of the search's matches if they are few. Then the texts are read only once."""
    search = page_query.filter.search
    if search is None:
        return page_query
    job_ids = session.scalars(_with_text(search).limit(_FEW + 1)).all()
    if len(job_ids) > _FEW:
        return page_query
    return replace(page_query, filter=replace(page_query.filter, search_matches=tuple(job_ids)))


def _with_text(search: str) -> Select[str]:
    """Search for the text as it was typed (sources are stored so), and for the composed text (names and labels)."""
    typed = {search, normalize("NFC", search)}
    return select(JobText.job_id).where(or_(*(contains(JobText.text, text) for text in sorted(typed))))


class JobRevision(NamedTuple):
    """Shows whether a job's view changed. The view of a queued job may also change without a new revision."""

    id: str
    revision: int
    status: Status


def revisions(session: Session, page_query: ListQuery) -> list[JobRevision]:
    """The revisions of the jobs that `list_jobs` reads, and of one more. Raises `InvalidCursor`."""
    return [JobRevision(*row) for row in session.execute(_in_order(session, _REVISION, page_query))]


def revisions_of(connection: Connection, job_ids: Sequence[str]) -> list[JobRevision]:
    """The revisions of these jobs, without reading their whole rows. Unknown ids are left out."""
    return [JobRevision(*row) for row in connection.execute(_REVISIONS_OF, {"ids": list(job_ids)})]


_REVISION = select(Job.id, Job.revision, Job.status)
_REVISIONS_OF = _REVISION.where(
    Job.id == any_(bindparam("ids", type_=ARRAY(Text)))
)  # one statement for any number of ids


def _in_order(session: Session, query: Select[*Columns], page_query: ListQuery) -> Select[*Columns]:
    """The rows of a page, and one more."""
    parts, order = _parts(page_query, page_query.position(session)), [key.sorted() for key in page_query.keys]
    if len(parts) == 1:
        in_index = _as_in_index(page_query) if has_index(page_query.order) else order
        return query.where(*parts[0]).order_by(*in_index).limit(page_query.limit + 1)
    page_ids = _page_of_parts(parts, page_query)
    return query.join(page_ids, page_ids.c.id == Job.id).order_by(*order)


def _parts(page_query: ListQuery, position: Position | None) -> list[list[ColumnElement[bool]]]:
    """The conditions of the parts of the list. For each part, some index has the right order.

    No index has several statuses at once, or the jobs with a value before those without one.
    """
    filters = page_query.filter.conditions()
    chosen = sorted(page_query.filter.statuses)
    if not has_index(page_query.order):  # all jobs are read: once is enough
        of_statuses = [Job.status.in_(chosen)] if chosen else []
        return [[*of_statuses, *filters, *([] if position is None else [behind(page_query.keys, position)])]]
    statuses = [[Job.status == status] for status in chosen] or [[]]
    return [[*status, *filters, *stretch] for status in statuses for stretch in _stretches(page_query, position)]


def _stretches(page_query: ListQuery, position: Position | None) -> list[list[ColumnElement[bool]]]:
    """The rest of the list after the cursor, as an index has it: first the jobs with a value, then those without."""
    first, after = page_query.keys[0], [] if position is None else [_behind_in_index(page_query.keys, position)]
    if not first.is_nullable:
        return [after]
    if position is not None and position[0] == NOTHING:
        return [[first.sql.is_(None), *after]]
    return [[first.sql.is_not(None), *after], [first.sql.is_(None)]]


def _page_of_parts(parts: Sequence[Sequence[ColumnElement[bool]]], page_query: ListQuery) -> Subquery:
    """The ids of a page and of one job more, from the first rows of each part. Whole rows are read only for these."""
    columns = [key.sql.label(f"key_{place}") for place, key in enumerate(page_query.keys)]
    most, in_index = page_query.limit + 1, _as_in_index(page_query)
    firsts = [select(*columns).where(*part).order_by(*in_index).limit(most).subquery() for part in parts]
    merged = list(union_all(*(select(first) for first in firsts)).subquery().c)
    order = [key.sorted(column) for key, column in zip(page_query.keys, merged, strict=True)]
    return select(merged[-1].label("id")).order_by(*order).limit(most).subquery()


def _as_in_index(page_query: ListQuery) -> list[ColumnElement[Any]]:
    """The order of a part, in which all jobs have a value, or none has."""
    return [key.sql.desc() if key.falls else key.sql.asc() for key in page_query.keys]


def _behind_in_index(keys: Sequence[SortKey], position: Position) -> ColumnElement[bool]:
    """Like `behind`, for keys of one direction: as a comparison of rows, which an index knows."""
    if keys[0].is_nullable and position[0] == NOTHING:
        keys, position = keys[1:], position[1:]
    row = tuple_(*(key.sql for key in keys))
    after = tuple_(*(key.bound(stored) for key, stored in zip(keys, position, strict=True)))
    return row < after if keys[0].falls else row > after


def _position(keys: Sequence[SortKey], job: Job, *texts: str | None) -> Position:
    """Where a job is. `texts` are the keys as JSON that its row does not have."""
    of_fields = iter(texts)
    return tuple(next(of_fields) or NOTHING if key.of is None else key.of(job) for key in keys)
