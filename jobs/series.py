"""The reading side of the series: metrics and utilization samples. Called by the api; `jobs.ingest` writes them.

The database hands over each series as arrays, one series at a time: a tenth of the work that rows are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    SQLColumnExpression,
    Subquery,
    cast,
    func,
    literal,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, distinct_on
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import NullType

from jobs.ingest import ALL_RANKS, RANK_EPOCH_METRICS
from jobs.tables import Attempt, Job, MetricPoint, Sample
from jobs.thinning import kept

Axis = Literal["step", "epoch", "time"]

UNITS = {
    "gpu_percent": "percent",
    "gpu_memory_bytes": "bytes",
    "gpu_power_w": "watts",
    "gpu_temperature_c": "celsius",
    "gpu_sm_clock_mhz": "megahertz",
    "cpu_percent": "percent",
    "memory_bytes": "bytes",
}
_ONE_AT_A_TIME = {"yield_per": 1}


@dataclass(frozen=True)
class MetricSeries:
    """A metric of one rank (-1: over all ranks, one point an epoch). A value that is no number is None."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]


@dataclass(frozen=True)
class SampleSeries:
    """What one slot did under one attempt. `x` is seconds since the job's first start; a gap in `y` is None."""

    metric: str
    unit: str
    host: str
    slot: int
    rank: int
    attempt: int
    x: list[float]
    step: list[int | None]
    y: list[float | None]


def metrics(
    session: Session, job: Job, *, names: Sequence[str] = (), axis: Axis = "step", max_points: int = 1000
) -> list[MetricSeries]:
    """The metrics of a job, ordered by name and rank; the epoch axis has only those that are one an epoch.

    What an attempt wrote beyond the step from which a later one went on is void and left out.
    """
    points = _valid_points(job, names, axis).subquery()
    by_step = points.c.step
    query = (
        select(points.c.name, points.c.rank, _array(points.c.x, by_step), _array(points.c.value, by_step))
        .group_by(points.c.name, points.c.rank)
        .order_by(points.c.name, points.c.rank)
    )
    found = []
    for name, rank, x, y in session.execute(query, execution_options=_ONE_AT_A_TIME):
        keep = kept(y, max_points)
        found.append(MetricSeries(name, rank, [x[i] for i in keep], [_finite(y[i]) for i in keep]))
    return found


def utilization(
    session: Session, job: Job, *, wanted: Sequence[str] = tuple(UNITS), max_points: int = 1000
) -> list[SampleSeries]:
    """The samples of a job's slots, ordered by attempt and rank; a metric that no sample has is left out."""
    key = (Sample.attempt, Sample.rank, Sample.host, Sample.slot)
    columns: list[InstrumentedAttribute[Any]] = [getattr(Sample, metric) for metric in wanted]
    arrays = [_array(column, Sample.at) for column in (_since_start(job, Sample.at), Sample.step, *columns)]
    query = select(*key, *arrays).where(Sample.job_id == job.id).group_by(*key).order_by(*key)
    found = []
    for attempt, rank, host, slot, x, steps, *values in session.execute(query, execution_options=_ONE_AT_A_TIME):
        for metric, y in zip(wanted, values, strict=True):
            if any(value is not None for value in y):
                keep = kept(y, max_points)
                found.append(
                    SampleSeries(
                        metric=metric,
                        unit=UNITS[metric],
                        host=host,
                        slot=slot,
                        rank=rank,
                        attempt=attempt,
                        x=[x[i] for i in keep],
                        step=[steps[i] for i in keep],
                        y=[_finite(y[i]) for i in keep],
                    )
                )
    return found


def _valid_points(job: Job, names: Sequence[str], axis: Axis) -> Select[Any]:
    """The points of each name and rank that count, one a step: where two attempts wrote it, the later one's."""
    point = MetricPoint
    until = valid_until(job.id)
    query = (
        select(point.name, point.rank, point.step, point.value, _x(job, axis).label("x"))
        .outerjoin(until, until.c.number == point.attempt)
        .where(point.job_id == job.id, or_(until.c.step.is_(None), point.step <= until.c.step))
        .ext(distinct_on(point.name, point.rank, point.step))
        .order_by(point.name, point.rank, point.step, point.attempt.desc())
    )
    if names:
        query = query.where(point.name.in_(names))
    one_an_epoch = or_(point.rank == ALL_RANKS, point.name.in_(RANK_EPOCH_METRICS))
    return query.where(one_an_epoch) if axis == "epoch" else query


def valid_until(job_id: str) -> Subquery:
    """For each attempt the last step that no later attempt ran again; null: all of them.

    An attempt says from where it goes on before it writes any point, so one that has not said so voids nothing.
    """
    later = func.min(Attempt.resumed_step).over(order_by=Attempt.number, rows=(1, None))
    return select(Attempt.number, later.label("step")).where(Attempt.job_id == job_id).subquery()


def _x(job: Job, axis: Axis) -> ColumnElement[Any]:
    match axis:
        case "step":
            return MetricPoint.step.expression
        case "epoch":
            return MetricPoint.epoch.expression
        case "time":
            return _since_start(job, MetricPoint.at)


def _since_start(job: Job, at: InstrumentedAttribute[datetime]) -> ColumnElement[float]:
    start = literal(job.started_at or job.created_at)
    return cast(func.extract("epoch", at - start), Float(53))


def _array(column: SQLColumnExpression[Any], order: SQLColumnExpression[Any]) -> ColumnElement[Any]:
    # Without a type SQLAlchemy leaves the list as psycopg's C code made it, and does not visit each value.
    return type_coerce(func.array_agg(aggregate_order_by(column, order)), NullType())


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
