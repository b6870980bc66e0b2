"""The points of a job's steps as arrays, from blocks and rows. Called by `reading`.

Unlike `jobs.telemetry.series` it gives every point as it was written, void ones too, and any range of steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, SQLColumnExpression, false, func, literal_column, select, true, union_all
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from jobs.db.tables import MetricBlock, MetricPoint
from jobs.insight.analysis.evidence import EpochSteps, Floats, LongStep, Steps, Whole
from jobs.telemetry.blocks import EPOCH_OF_TIMES, floats, integers, seconds_since, steps_of

TIME, DATA_WAIT, ALLREDUCE = "step_time_s", "data_wait_s", "allreduce_s"
_POSIX_S = EPOCH_OF_TIMES.timestamp()
_FETCHED = {"yield_per": 64}


@dataclass(frozen=True)
class Part:
    """Some points of one series, ascending by step."""

    name: str
    rank: int
    steps: Whole
    epochs: Whole
    at: Floats  # POSIX seconds
    values: Floats


def parts(
    session: Session,
    job_id: str,
    attempt: int,
    names: Sequence[str],
    *,
    rank: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> Iterator[Part]:
    """The points of a range of steps, sorted by name, rank and step. `rank` None: of every rank."""
    rows = session.execute(_query(job_id, attempt, names, rank, first, last), execution_options=_FETCHED)
    for _, of_series in groupby(rows, key=lambda row: (row.name, row.rank)):
        for part in _in_order(of_series):
            inside = _cut(part, first, last)
            if len(inside.steps):
                yield inside


def _in_order(rows: Iterable[Any]) -> Iterator[Part]:
    """The parts of one series, sorted by step. Its rows come first, as one part, and lie between the blocks."""
    single_points: Part | None = None
    for row in rows:
        steps = steps_of(row.first_step, row.last_step, row.steps)
        at = seconds_since(EPOCH_OF_TIMES, integers(row.times)) + _POSIX_S
        part = Part(row.name, row.rank, steps, integers(row.epochs, "i4"), at, floats(row.numbers))
        if not row.is_block:
            single_points = part
            continue
        if single_points is not None:
            yield _cut(single_points, None, row.first_step - 1)
            single_points = _cut(single_points, row.first_step, None)
        yield part
    if single_points is not None:
        yield single_points


def course_of(step_times: Iterable[Part], *, long_s: float) -> tuple[list[EpochSteps], list[LongStep]]:
    """The steps of each epoch, and the steps longer than `long_s`. `step_times` are those of one rank.

    A script need not report every step: its time of a step is the mean since the last report.
    """
    epochs: list[EpochSteps] = []
    long: list[LongStep] = []
    for part in step_times:
        since = np.diff(part.steps, prepend=epochs[-1].last if epochs else part.steps[0] - 1)
        long += [
            LongStep(int(part.steps[index]), float(part.at[index]), float(part.values[index]))
            for index in np.flatnonzero(part.values > long_s).tolist()
        ]
        starts = [0, *(np.flatnonzero(np.diff(part.epochs)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(part.steps)], strict=True):
            epoch = EpochSteps(
                epoch=int(part.epochs[start]),
                first=int(part.steps[start]),
                last=int(part.steps[end - 1]),
                began_at=float(part.at[start] - since[start] * part.values[start]),
                first_ended_at=float(part.at[start]),
                ended_at=float(part.at[end - 1]),
            )
            if epochs and epochs[-1].epoch == epoch.epoch:
                epoch = replace(epochs.pop(), last=epoch.last, ended_at=epoch.ended_at)
            epochs.append(epoch)
    return epochs, long


def steps_in(session: Session, job_id: str, attempt: int, *, first: int, last: int, every: float) -> Steps | None:
    """The steps from `first` to `last` that all ranks of an attempt made; None if there are none."""
    of_rank: dict[int, dict[str, list[Part]]] = {}
    for part in parts(session, job_id, attempt, (TIME, DATA_WAIT, ALLREDUCE), first=first, last=last):
        of_rank.setdefault(part.rank, {}).setdefault(part.name, []).append(part)
    measured = {frozenset(of_name) for of_name in of_rank.values()}
    if len(measured) != 1 or TIME not in (names := next(iter(measured))) or len(names) == 1:
        return None
    columns = [{name: _joined(one) for name, one in of_rank[rank].items()} for rank in sorted(of_rank)]
    numbers = [steps for column in columns for steps, _ in column.values()]
    common = reduce(np.intersect1d, numbers) if numbers else np.empty(0, np.int64)
    if not len(common):
        return None
    time_s, data_wait_s, allreduce_s = (
        np.stack([values[np.searchsorted(steps, common)] for steps, values in (column[name] for column in columns)], 1)
        if name in names
        else np.zeros((len(common), len(columns)))
        for name in (TIME, DATA_WAIT, ALLREDUCE)
    )
    return Steps(attempt, common, time_s, data_wait_s, allreduce_s, every=every, has_waits=len(names) == 3)


def as_bytes(column: SQLColumnExpression[Any], send: str, sort_by: SQLColumnExpression[Any]) -> ColumnElement[bytes]:
    """All values of a group as bytes, as the database's function `send` writes them. None may be null."""
    return func.string_agg(getattr(func, send)(column), aggregate_order_by(literal_column("''::bytea"), sort_by))


def _joined(found: Sequence[Part]) -> tuple[Whole, Floats]:
    return np.concatenate([part.steps for part in found]), np.concatenate([part.values for part in found])


def _query(
    job_id: str, attempt: int, names: Sequence[str], rank: int | None, first: int | None, last: int | None
) -> Any:
    block, point = MetricBlock, MetricPoint
    of_blocks = select(
        block.name, block.rank, block.first_step, block.last_step, block.steps, block.epochs, block.times,
        block.numbers, true().label("is_block"),
    )  # fmt: skip
    of_points = select(
        point.name, point.rank, func.min(point.step), func.max(point.step),
        as_bytes(point.step, "int8send", point.step), as_bytes(point.epoch, "int4send", point.step),
        as_bytes(point.at, "timestamptz_send", point.step),
        as_bytes(point.value, "float8send", point.step), false(),
    ).group_by(point.name, point.rank)  # fmt: skip
    conditions: list[list[ColumnElement[bool]]] = []
    for table, begin, end in ((block, block.first_step, block.last_step), (point, point.step, point.step)):
        condition = [table.job_id == job_id, table.attempt == attempt, table.name.in_(names)]
        condition.append(table.rank >= 0 if rank is None else table.rank == rank)
        condition += [] if last is None else [begin <= last]
        condition += [] if first is None else [end >= first]
        conditions.append(condition)
    both: Any = union_all(of_blocks.where(*conditions[0]), of_points.where(*conditions[1]))
    return both.order_by("name", "rank", "is_block", "first_step")


def _cut(part: Part, first: int | None, last: int | None) -> Part:
    start = 0 if first is None else int(np.searchsorted(part.steps, first))
    end = len(part.steps) if last is None else int(np.searchsorted(part.steps, last, side="right"))
    here = slice(start, end)
    return Part(part.name, part.rank, part.steps[here], part.epochs[here], part.at[here], part.values[here])
