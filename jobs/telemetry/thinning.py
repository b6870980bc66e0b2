"""Thins the stored series of jobs that ended long ago: the outline of each metric and of each slot's samples stays.

Called by `worker.retention`, one transaction for each batch.

- A series is divided into `BINS` bins. The first, the newest, the least and the greatest point of each bin stay, so a
  chart keeps its look. Nothing is averaged.
- A bin that loses points gets a roll-up: the figures of all its points (`Rollup`).
- Series with one point an epoch stay whole.
- Points that a restart made void (`jobs.telemetry.series`) are removed, and no roll-up counts them.
- Blocks become rows first, one series after the other.

A process may die between two batches. The next one finds the same outline, because the bins' borders depend only on the
first and the newest point, and these stay. A bin gets its roll-up in the transaction that removes its points, so only
once.
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
from jobs.telemetry.blocks import BLOCK, points_of_block
from jobs.telemetry.ingest import is_one_an_epoch, store_points
from jobs.telemetry.outline import bin_of, bin_start, max_outline_points, outline_indices
from jobs.telemetry.rollups import StoredPoint, figures_of
from jobs.telemetry.sampled_metrics import SLOT_METRICS

BINS = 125  # so at most 500 points of a metric stay
_BATCH_ROWS = 5000
_BATCH_S = 0.25  # after which a batch of many short series ends
_SAMPLED: tuple[InstrumentedAttribute[Any], ...] = tuple(getattr(Sample, metric) for metric in SLOT_METRICS)
_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}
_TICK = timedelta(microseconds=1)  # the resolution of times in the database

Position = int | datetime


@dataclass(frozen=True)
class _SeriesToThin:
    """One series, and from which position on it is still to be thinned."""

    table: type[MetricPoint | Sample]
    condition: ColumnElement[bool]
    key: dict[str, Any]  # of its roll-ups; for samples without the name of the column
    position: InstrumentedAttribute[Any]  # step or time
    values: tuple[InstrumentedAttribute[Any], ...]
    first: Position  # of the valid points
    newest: Position
    only_void_points_go: bool  # the valid points stay, all of them
    void_after: dict[int, int]  # by attempt
    start: Position | None = None

    @property
    def span(self) -> int:
        return _ticks(self.newest, self.first)

    def until(self, position: Position) -> Position:
        """A border between two bins near `position`, after `start`."""
        offset = _ticks(position, self.first)
        if self.only_void_points_go or not 0 <= offset <= self.span:
            return position  # the points there are void
        number = bin_of(offset, span=self.span, bins=BINS)
        before, after = self._border(number), self._border(number + 1)
        here = self.first if self.start is None else self.start
        return before if _ticks(before, here) > 0 else after

    def _border(self, number: int) -> Position:
        offset = bin_start(number, span=self.span, bins=BINS)
        return self.first + offset * _TICK if isinstance(self.first, datetime) else self.first + offset


class Thinning:
    """Thins the series of one job after the other. It remembers how far it got: after a failure, start a new one."""

    def __init__(self, *, keep_days: float) -> None:
        self._keep = timedelta(days=keep_days)
        self._job_id: str | None = None
        self._series_in_blocks: deque[tuple[str, int]] = deque()  # name and rank of the series that have blocks
        self._series_left: deque[_SeriesToThin] = deque()
        self._all_listed = False

    def batch(self, session: Session) -> bool:
        """Thin for about a quarter of a second; False when nothing is left to thin."""
        rows_read, give_up_at = 0, time.monotonic() + _BATCH_S
        while rows_read < _BATCH_ROWS and time.monotonic() < give_up_at:
            if self._job_id is None:
                self._job_id = session.scalar(_next_job(self._keep))
                if self._job_id is None:
                    return False
                self._series_in_blocks, self._all_listed = deque(_with_blocks(session, self._job_id)), False
            rows_read += self._next_step(session, self._job_id)
        return True

    def _next_step(self, session: Session, job_id: str) -> int:
        """Take the next step with a job. Returns how many points it read."""
        if self._series_left:
            series = self._series_left.popleft()
            rest, rows = _thin(session, series)
            if rest is not None:
                self._series_left.appendleft(rest)
            return rows
        if self._series_in_blocks:
            name, rank = self._series_in_blocks[0]
            rows = _rows_from_blocks(session, job_id, name, rank)
            if not rows:
                self._series_in_blocks.popleft()
                self._series_left.extend(_long_metrics(session, job_id, name, rank))
            return rows
        if not self._all_listed:
            self._series_left.extend([*_long_metrics(session, job_id), *_long_samples(session, job_id)])
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


def _rows_from_blocks(session: Session, job_id: str, name: str, rank: int) -> int:
    """Turn some blocks of a series into rows. Returns how many rows."""
    block = MetricBlock
    blocks = session.scalars(
        select(block)
        .where(block.job_id == job_id, block.name == name, block.rank == rank)
        .order_by(block.attempt, block.first_step)
        .limit(max(1, _BATCH_ROWS // BLOCK))
    ).all()
    rows = [point for block_row in blocks for point in points_of_block(block_row)]
    store_points(session, rows)
    session.execute(
        delete(block).where(block.id.in_([block_row.id for block_row in blocks])), execution_options=_UNSYNCHRONIZED
    )
    session.expunge_all()
    return len(rows)


def _long_metrics(
    session: Session, job_id: str, name: str | None = None, rank: int | None = None
) -> Iterator[_SeriesToThin]:
    """The metrics of a job, or one of them, that have void points, or more points than may stay."""
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
        only_void_points_go = is_one_an_epoch(row.name, row.rank) or row.valid <= max_outline_points(1, BINS)
        if not only_void_points_go or row.valid < row.every:
            yield _SeriesToThin(
                table=point,
                condition=and_(point.job_id == job_id, point.name == row.name, point.rank == row.rank),
                key={"job_id": job_id, "source": "metric", "name": row.name, "rank": row.rank, "attempt": 0},
                position=point.step,
                values=(point.value,),
                first=row.first,
                newest=row.newest,
                only_void_points_go=only_void_points_go,
                void_after=void_after,
            )


def _long_samples(session: Session, job_id: str) -> Iterator[_SeriesToThin]:
    """The samples of each rank of each attempt, where they are more than may stay."""
    key = (Sample.attempt, Sample.rank)
    rows = session.execute(
        select(*key, func.min(Sample.at), func.max(Sample.at))
        .where(Sample.job_id == job_id)
        .group_by(*key)
        .having(func.count() > max_outline_points(len(_SAMPLED), BINS))
    ).all()
    for attempt, rank, first, newest in rows:
        yield _SeriesToThin(
            table=Sample,
            condition=and_(Sample.job_id == job_id, Sample.attempt == attempt, Sample.rank == rank),
            key={"job_id": job_id, "source": "sample", "rank": rank, "attempt": attempt},
            position=Sample.at,
            values=_SAMPLED,
            first=first,
            newest=newest,
            only_void_points_go=False,
            void_after={},
        )


def _thin(session: Session, series: _SeriesToThin) -> tuple[_SeriesToThin | None, int]:
    """Thin some whole bins of a series. Returns what is left to thin, and how many points were read."""
    position = series.position
    condition_left = series.condition if series.start is None else and_(series.condition, position >= series.start)
    beyond = session.scalar(select(position).where(condition_left).order_by(position).offset(_BATCH_ROWS).limit(1))
    until = None if beyond is None else series.until(beyond)
    condition = condition_left if until is None else and_(condition_left, position < until)
    table = series.table
    place: ColumnElement[str] = literal_column(f"CAST({table.__tablename__}.ctid AS text)")
    rows = session.execute(
        select(place, position, table.attempt, table.step, table.epoch, table.at, *series.values)
        .where(condition)
        .order_by(position, table.attempt)
    ).all()
    points = [StoredPoint(row[0], row[1], row[2], row[3], row[4], row[5], row[6:]) for row in rows]
    valid = _valid(series, points)
    staying = valid if series.only_void_points_go else _outline(series, valid)
    removed_ctids = {point.place for point in points} - {point.place for point in staying}
    if removed_ctids:
        # By their place in the table: no other writer touches these rows, and none can move them before the commit.
        is_removed = text(f"{table.__tablename__}.ctid = ANY(CAST(:ctids AS tid[]))")
        session.execute(
            delete(table).where(is_removed), {"ctids": list(removed_ctids)}, execution_options=_UNSYNCHRONIZED
        )
        figures = list(_figures(series, valid, removed_ctids))
        if figures:
            session.execute(insert(Rollup).on_conflict_do_nothing(), figures)
    return None if until is None else replace(series, start=until), len(rows)


def _valid(series: _SeriesToThin, points: Sequence[StoredPoint]) -> list[StoredPoint]:
    """The valid points, sorted by position."""
    valid: list[StoredPoint] = []
    for point in points:
        if point.attempt in series.void_after and point.position > series.void_after[point.attempt]:
            continue
        if series.table is MetricPoint and valid and valid[-1].position == point.position:
            valid.pop()  # if two attempts wrote a step, the later one counts
        valid.append(point)
    return valid


def _outline(series: _SeriesToThin, points: Sequence[StoredPoint]) -> list[StoredPoint]:
    offsets = [_ticks(point.position, series.first) for point in points]
    columns = list(zip(*(point.values for point in points), strict=True))
    return [points[index] for index in outline_indices(offsets, columns, span=series.span, bins=BINS)]


def _figures(series: _SeriesToThin, points: Sequence[StoredPoint], removed_ctids: Set[str]) -> Iterator[dict[str, Any]]:
    """The roll-ups of the bins from which points are removed: one for each column that has a number there."""
    bins: defaultdict[int, list[StoredPoint]] = defaultdict(list)
    if not series.only_void_points_go:
        for point in points:
            bins[bin_of(_ticks(point.position, series.first), span=series.span, bins=BINS)].append(point)
    for number, inside in bins.items():
        if any(point.place in removed_ctids for point in inside):
            for figures in figures_of([column.key for column in series.values], inside):
                yield {**figures, **series.key, "bin": number}


def _ticks(position: Any, start: Any) -> int:
    """How far `position` is from `start`, in steps or microseconds."""
    distance: int | timedelta = position - start
    return distance // _TICK if isinstance(distance, timedelta) else distance
