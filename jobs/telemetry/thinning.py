"""Thinning of stored series: of jobs that ended long ago the outline of each metric and of each slot's samples stays.

Called by `worker.retention`, a batch a transaction. The points that stay are points that were there: in each of
`BINS` stretches the first, the newest, the least and the greatest, so a chart keeps its look; and of each stretch that
lost any, the figures of all that it had (`Rollup`). What is one an epoch stays whole. What a restart made void
(`jobs.telemetry.series`) goes altogether, and no figure counts it. Blocks are unpacked first, a series after the other.

Whatever dies between two batches, the next one that starts anew finds the same outline: a bin's borders follow from
the first and the newest point alone, and these stay. A stretch has its figures when its points go, so just once.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, literal_column, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.tables import Job, MetricBlock, MetricPoint, Rollup, Sample
from jobs.telemetry.axes import valid_until
from jobs.telemetry.blocks import BLOCK, unpacked
from jobs.telemetry.ingest import is_one_an_epoch, store_unpacked
from jobs.telemetry.outline import bin_of, bin_start, most_of_outline, outline
from jobs.telemetry.rollups import StoredPoint, figures_of
from jobs.telemetry.sampled_metrics import SLOT_METRICS

BINS = 125  # of a metric 500 points stay at most
_BATCH_ROWS = 5000
_BATCH_S = 0.25  # a batch of many short series ends after about so long
_SAMPLED: tuple[InstrumentedAttribute[Any], ...] = tuple(getattr(Sample, metric) for metric in SLOT_METRICS)
_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}
_TICK = timedelta(microseconds=1)  # what the database tells times apart by

Position = int | datetime


@dataclass(frozen=True)
class _Stored:
    """The points of one series, and from where on they are still to be looked at."""

    table: type[MetricPoint | Sample]
    of: ColumnElement[bool]
    key: dict[str, Any]  # of its roll-ups, but for the name of a column of samples
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


class Thinning:
    """Thins the series of one job after the other. It keeps its place: after a failure, start with a new one."""

    def __init__(self, *, keep_days: float) -> None:
        self._keep = timedelta(days=keep_days)
        self._job_id: str | None = None
        self._packed: deque[tuple[str, int]] = deque()  # series that have blocks: name and rank
        self._stored: deque[_Stored] = deque()
        self._all_listed = False

    def batch(self, session: Session) -> bool:
        """Thin some more; False when nothing is left to thin."""
        read, give_up_at = 0, time.monotonic() + _BATCH_S
        while read < _BATCH_ROWS and time.monotonic() < give_up_at:
            if self._job_id is None:
                self._job_id = session.scalar(_next_job(self._keep))
                if self._job_id is None:
                    return False
                self._packed, self._all_listed = deque(_with_blocks(session, self._job_id)), False
            read += self._go_on(session, self._job_id)
        return True

    def _go_on(self, session: Session, job_id: str) -> int:
        """Take the next step with a job; says how many points it read."""
        if self._stored:
            stored = self._stored.popleft()
            rest, rows = _thin(session, stored)
            if rest is not None:
                self._stored.appendleft(rest)
            return rows
        if self._packed:
            name, rank = self._packed[0]
            rows = _unpack_some(session, job_id, name, rank)
            if not rows:
                self._packed.popleft()
                self._stored.extend(_long_metrics(session, job_id, name, rank))
            return rows
        if not self._all_listed:
            self._stored.extend([*_long_metrics(session, job_id), *_long_samples(session, job_id)])
            self._all_listed = True
            return 0
        session.execute(_mark(job_id))
        self._job_id = None
        return 0


def _next_job(keep: timedelta) -> Any:
    due = (Job.ended_at < func.now() - keep, Job.series_thinned_at.is_(None))
    return select(Job.id).where(*due).order_by(Job.ended_at).limit(1)


def _mark(job_id: str) -> Any:
    return (
        update(Job)
        .where(Job.id == job_id, Job.series_thinned_at.is_(None))
        .values(series_thinned_at=func.now(), revision=Job.revision + 1)
    )


def _with_blocks(session: Session, job_id: str) -> list[tuple[str, int]]:
    series = (MetricBlock.name, MetricBlock.rank)
    rows = session.execute(select(*series).where(MetricBlock.job_id == job_id).group_by(*series).order_by(*series))
    return list(rows)


def _unpack_some(session: Session, job_id: str, name: str, rank: int) -> int:
    """Make rows of some blocks of a series; says how many."""
    block = MetricBlock
    some = session.scalars(
        select(block)
        .where(block.job_id == job_id, block.name == name, block.rank == rank)
        .order_by(block.attempt, block.first_step)
        .limit(max(1, _BATCH_ROWS // BLOCK))
    ).all()
    rows = [point for one in some for point in unpacked(one)]
    store_unpacked(session, rows)
    session.execute(delete(block).where(block.id.in_([one.id for one in some])), execution_options=_UNSYNCHRONIZED)
    session.expunge_all()
    return len(rows)


def _long_metrics(session: Session, job_id: str, name: str | None = None, rank: int | None = None) -> Iterator[_Stored]:
    """The metrics of a job, or one of them, that have more points than stay, or void ones."""
    point, until = MetricPoint, valid_until(job_id)
    only = [] if name is None else [point.name == name, point.rank == rank]
    counts = or_(until.c.step.is_(None), point.step <= until.c.step)
    rows = session.execute(
        select(
            point.name, point.rank, func.count().label("every"), func.count().filter(counts).label("valid"),
            func.coalesce(func.min(point.step).filter(counts), func.min(point.step)).label("first"),
            func.coalesce(func.max(point.step).filter(counts), func.max(point.step)).label("newest"),
        )
        .outerjoin(until, until.c.number == point.attempt)
        .where(point.job_id == job_id, *only)
        .group_by(point.name, point.rank)
    ).all()  # fmt: skip
    void_after = {row.number: row.step for row in session.execute(select(until).where(until.c.step.is_not(None)))}
    for row in rows:
        whole = is_one_an_epoch(row.name, row.rank) or row.valid <= most_of_outline(1, BINS)
        if not whole or row.valid < row.every:
            yield _Stored(
                table=point,
                of=and_(point.job_id == job_id, point.name == row.name, point.rank == row.rank),
                key={"job_id": job_id, "source": "metric", "name": row.name, "rank": row.rank, "attempt": 0},
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
            key={"job_id": job_id, "source": "sample", "rank": rank, "attempt": attempt},
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
    table = stored.table
    place: ColumnElement[str] = literal_column(f"CAST({table.__tablename__}.ctid AS text)")
    rows = session.execute(
        select(place, position, table.attempt, table.step, table.epoch, table.at, *stored.values)
        .where(here)
        .order_by(position, table.attempt)
    ).all()
    points = [StoredPoint(row[0], row[1], row[2], row[3], row[4], row[5], row[6:]) for row in rows]
    counting = _counting(stored, points)
    staying = counting if stored.whole else _outline(stored, counting)
    gone = {point.place for point in points} - {point.place for point in staying}
    if gone:
        # By their place in the table: no other writer touches these rows, and none can move them before the commit.
        among_them = text(f"{table.__tablename__}.ctid = ANY(CAST(:gone AS tid[]))")
        session.execute(delete(table).where(among_them), {"gone": list(gone)}, execution_options=_UNSYNCHRONIZED)
        figures = list(_figures(stored, counting, gone))
        if figures:
            session.execute(insert(Rollup).on_conflict_do_nothing(), figures)
    return None if until is None else replace(stored, start=until), len(rows)


def _counting(stored: _Stored, points: Sequence[StoredPoint]) -> list[StoredPoint]:
    """The points that are not void; they are in order."""
    counting: list[StoredPoint] = []
    for point in points:
        if point.attempt in stored.void_after and point.position > stored.void_after[point.attempt]:
            continue
        if stored.table is MetricPoint and counting and counting[-1].position == point.position:
            counting.pop()  # where two attempts wrote a step, the later one counts
        counting.append(point)
    return counting


def _outline(stored: _Stored, points: Sequence[StoredPoint]) -> list[StoredPoint]:
    offsets = [_ticks(point.position, stored.first) for point in points]
    columns = list(zip(*(point.values for point in points), strict=True))
    return [points[index] for index in outline(offsets, columns, span=stored.span, bins=BINS)]


def _figures(stored: _Stored, points: Sequence[StoredPoint], gone: Set[str]) -> Iterator[dict[str, Any]]:
    """The roll-ups of the bins from which points go, one of each column that has a number there."""
    bins: defaultdict[int, list[StoredPoint]] = defaultdict(list)
    if not stored.whole:
        for point in points:
            bins[bin_of(_ticks(point.position, stored.first), span=stored.span, bins=BINS)].append(point)
    for number, inside in bins.items():
        if any(point.place in gone for point in inside):
            for figures in figures_of([column.key for column in stored.values], inside):
                yield {**figures, **stored.key, "bin": number}


def _ticks(position: Any, start: Any) -> int:
    """How far `position` is behind `start`, in steps or microseconds."""
    distance: int | timedelta = position - start
    return distance // _TICK if isinstance(distance, timedelta) else distance
