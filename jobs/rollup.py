"""Thinning of stored series: of jobs that ended long ago the outline of each metric and of each slot's samples stays.

Called by `worker.retention`, a batch a transaction. The points that stay are points that were there: in each of
`BINS` stretches the first, the newest, the least and the greatest, so a chart keeps its look. What is one an epoch
stays whole. What a restart made void (`jobs.series`) goes altogether.

Whatever dies between two batches, the next one that starts anew finds the same outline: a bin's borders follow from
the first and the newest point alone, and these stay.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, literal_column, or_, select, text, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.ingest import ALL_RANKS, RANK_EPOCH_METRICS
from jobs.series import UNITS, valid_until
from jobs.tables import Job, MetricPoint, Sample
from jobs.thinning import bin_of, bin_start, most_of_outline, outline

BINS = 125  # of a metric 500 points stay at most
_BATCH_ROWS = 5000
_BATCH_S = 0.25  # a batch of many short series ends after about so long
_SAMPLED: tuple[InstrumentedAttribute[Any], ...] = tuple(getattr(Sample, metric) for metric in UNITS)
_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}
_TICK = timedelta(microseconds=1)  # what the database tells times apart by

Position = int | datetime


@dataclass(frozen=True)
class _Stored:
    """The points of one series, and from where on they are still to be looked at."""

    table: type[MetricPoint | Sample]
    of: ColumnElement[bool]
    position: InstrumentedAttribute[Any]  # step or time
    values: tuple[InstrumentedAttribute[Any], ...]
    first: Position  # of the points that count
    newest: Position
    whole: bool  # nothing but void points goes
    void_after: dict[int, int]  # by attempt
    start: Position | None = None

    @property
    def span(self) -> int:
        return _ticks(self.newest, self.first)

    def until(self, position: Position) -> Position:
        """A border between two bins near `position`, behind `start`."""
        offset = _ticks(position, self.first)
        if self.whole or not 0 <= offset <= self.span:
            return position  # what lies out there is void
        number = bin_of(offset, span=self.span, bins=BINS)
        before, after = self._border(number), self._border(number + 1)
        here = self.first if self.start is None else self.start
        return before if _ticks(before, here) > 0 else after

    def _border(self, number: int) -> Position:
        offset = bin_start(number, span=self.span, bins=BINS)
        return self.first + offset * _TICK if isinstance(self.first, datetime) else self.first + offset


class Rollup:
    """Thins the series of one job after the other. It keeps its place: after a failure, start with a new one."""

    def __init__(self, *, keep_days: float) -> None:
        self._keep = timedelta(days=keep_days)
        self._job_id: str | None = None
        self._stored: deque[_Stored] = deque()

    def batch(self, session: Session) -> bool:
        """Thin some more; False when nothing is left to thin."""
        read, give_up_at = 0, time.monotonic() + _BATCH_S
        while read < _BATCH_ROWS and time.monotonic() < give_up_at:
            if self._job_id is None:
                self._job_id = session.scalar(_next_job(self._keep))
                if self._job_id is None:
                    return False
                self._stored = deque([*_long_metrics(session, self._job_id), *_long_samples(session, self._job_id)])
            if self._stored:
                read += self._thin_next(session)
            else:
                session.execute(_mark(self._job_id))
                self._job_id = None
        return True

    def _thin_next(self, session: Session) -> int:
        stored = self._stored.popleft()
        rest, rows = _thin(session, stored)
        if rest is not None:
            self._stored.appendleft(rest)
        return rows


def _next_job(keep: timedelta) -> Any:
    due = (Job.ended_at < func.now() - keep, Job.series_thinned_at.is_(None))
    return select(Job.id).where(*due).order_by(Job.ended_at).limit(1)


def _mark(job_id: str) -> Any:
    return (
        update(Job)
        .where(Job.id == job_id, Job.series_thinned_at.is_(None))
        .values(series_thinned_at=func.now(), revision=Job.revision + 1)
    )


def _long_metrics(session: Session, job_id: str) -> Iterator[_Stored]:
    """The metrics of a job that have more points than stay, or void ones."""
    point, until = MetricPoint, valid_until(job_id)
    counts = or_(until.c.step.is_(None), point.step <= until.c.step)
    rows = session.execute(
        select(
            point.name, point.rank, func.count().label("every"), func.count().filter(counts).label("valid"),
            func.coalesce(func.min(point.step).filter(counts), func.min(point.step)).label("first"),
            func.coalesce(func.max(point.step).filter(counts), func.max(point.step)).label("newest"),
        )
        .outerjoin(until, until.c.number == point.attempt)
        .where(point.job_id == job_id)
        .group_by(point.name, point.rank)
    ).all()  # fmt: skip
    void_after = {row.number: row.step for row in session.execute(select(until).where(until.c.step.is_not(None)))}
    for row in rows:
        one_an_epoch = row.rank == ALL_RANKS or row.name in RANK_EPOCH_METRICS
        whole = one_an_epoch or row.valid <= most_of_outline(1, BINS)
        if not whole or row.valid < row.every:
            yield _Stored(
                table=point,
                of=and_(point.job_id == job_id, point.name == row.name, point.rank == row.rank),
                position=point.step,
                values=(point.value,),
                first=row.first,
                newest=row.newest,
                whole=whole,
                void_after=void_after,
            )


def _long_samples(session: Session, job_id: str) -> Iterator[_Stored]:
    """The samples of each rank of each attempt, where they are more than stay."""
    key = (Sample.attempt, Sample.rank)
    rows = session.execute(
        select(*key, func.min(Sample.at), func.max(Sample.at))
        .where(Sample.job_id == job_id)
        .group_by(*key)
        .having(func.count() > most_of_outline(len(_SAMPLED), BINS))
    ).all()
    for attempt, rank, first, newest in rows:
        yield _Stored(
            table=Sample,
            of=and_(Sample.job_id == job_id, Sample.attempt == attempt, Sample.rank == rank),
            position=Sample.at,
            values=_SAMPLED,
            first=first,
            newest=newest,
            whole=False,
            void_after={},
        )


def _thin(session: Session, stored: _Stored) -> tuple[_Stored | None, int]:
    """Thin some whole bins of a series: what is left of it to look at, and how many points were read."""
    position = stored.position
    rest = stored.of if stored.start is None else and_(stored.of, position >= stored.start)
    beyond = session.scalar(select(position).where(rest).order_by(position).offset(_BATCH_ROWS).limit(1))
    until = None if beyond is None else stored.until(beyond)
    here = rest if until is None else and_(rest, position < until)
    place: ColumnElement[str] = literal_column(f"CAST({stored.table.__tablename__}.ctid AS text)")
    rows = session.execute(
        select(place, position, stored.table.attempt, *stored.values)
        .where(here)
        .order_by(position, stored.table.attempt)
    ).all()
    gone = [rows[index][0] for index in _superfluous(stored, [row[1:] for row in rows])]
    if gone:
        # By their place in the table: no other writer touches these rows, and none can move them before the commit.
        among_them = text(f"{stored.table.__tablename__}.ctid = ANY(CAST(:gone AS tid[]))")
        session.execute(delete(stored.table).where(among_them), {"gone": gone}, execution_options=_UNSYNCHRONIZED)
    return None if until is None else replace(stored, start=until), len(rows)


def _superfluous(stored: _Stored, rows: Sequence[Sequence[Any]]) -> Sequence[int]:
    """Which of these (position, attempt, values...) go; they are in order."""
    counting: list[int] = []
    for index, (position, attempt, *_) in enumerate(rows):
        if attempt in stored.void_after and position > stored.void_after[attempt]:
            continue
        if stored.table is MetricPoint and counting and rows[counting[-1]][0] == position:
            counting.pop()  # where two attempts wrote a step, the later one counts
        counting.append(index)
    if not stored.whole:
        offsets = [_ticks(rows[index][0], stored.first) for index in counting]
        columns = list(zip(*(rows[index][2:] for index in counting), strict=True))
        counting = [counting[index] for index in outline(offsets, columns, span=stored.span, bins=BINS)]
    stay = set(counting)
    return [index for index in range(len(rows)) if index not in stay]


def _ticks(position: Any, start: Any) -> int:
    """How far `position` is behind `start`, in steps or microseconds."""
    distance: int | timedelta = position - start
    return distance // _TICK if isinstance(distance, timedelta) else distance
