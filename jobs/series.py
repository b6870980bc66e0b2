"""The reading side of the series: metrics and utilization samples. Called by the api; `jobs.ingest` writes them.

Rows are streamed, and a series is thinned as soon as it is complete, so that memory holds one at a time.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import ColumnElement, Float, Row, cast, func, literal, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.tables import Attempt, Job, MetricPoint, Sample
from jobs.thinning import kept

Axis = Literal["step", "epoch", "time"]

ALL_RANKS = -1  # the rank of a value over all ranks: one a epoch
UNITS = {
    "gpu_percent": "percent",
    "gpu_memory_bytes": "bytes",
    "gpu_power_w": "watts",
    "gpu_temperature_c": "celsius",
    "gpu_sm_clock_mhz": "megahertz",
    "cpu_percent": "percent",
    "memory_bytes": "bytes",
}
_BATCH = 5000  # rows fetched at once
_NAN = math.nan


@dataclass(frozen=True)
class MetricSeries:
    """A metric of one rank (-1: over all ranks, one point a epoch). A value that is no number is None."""

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
    """The metrics of a job, ordered by name and rank; the epoch axis has only those that are one a epoch.

    What an attempt wrote beyond the step from which a later one went on is void and left out.
    """
    valid_until = _valid_until(session, job.id)
    point = MetricPoint
    query = select(point.name, point.rank, point.step, point.attempt, point.value, _x(job, axis).label("x"))
    query = query.where(point.job_id == job.id).order_by(point.name, point.rank, point.step, point.attempt)
    if names:
        query = query.where(point.name.in_(names))
    if axis == "epoch":
        query = query.where(point.rank == ALL_RANKS)
    rows = session.execute(query, execution_options={"yield_per": _BATCH})
    found = []
    for (name, rank), points in groupby(rows, key=lambda row: (row.name, row.rank)):
        x, y = _valid_points(points, valid_until)
        if x:
            keep = kept(y, max_points)
            found.append(MetricSeries(name, rank, [x[i] for i in keep], [_finite(y[i]) for i in keep]))
    return found


def utilization(
    session: Session, job: Job, *, wanted: Sequence[str] = tuple(UNITS), max_points: int = 1000
) -> list[SampleSeries]:
    """The samples of a job's slots, ordered by attempt and rank; a metric that no sample has is left out."""
    columns: list[InstrumentedAttribute[Any]] = [getattr(Sample, metric) for metric in wanted]
    query = (
        select(
            Sample.attempt, Sample.rank, Sample.host, Sample.slot, Sample.step, _since_start(job, Sample.at), *columns
        )
        .where(Sample.job_id == job.id)
        .order_by(Sample.attempt, Sample.rank, Sample.at)
    )
    rows = session.execute(query, execution_options={"yield_per": _BATCH})
    found: list[SampleSeries] = []
    for (attempt, rank, host, slot), samples in groupby(rows, key=lambda row: (row[0], row[1], row[2], row[3])):
        steps, x, values = _columns_of(samples, len(wanted))
        for metric, y in zip(wanted, values, strict=True):
            if not all(map(math.isnan, y)):
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


def _valid_until(session: Session, job_id: str) -> dict[int, float]:
    """For each attempt the last step that no later attempt ran again.

    An attempt says from where it goes on before it writes any point, so one that has not said so voids nothing.
    """
    query = select(Attempt.number, Attempt.resumed_step).where(Attempt.job_id == job_id)
    until: dict[int, float] = {}
    limit = math.inf
    for number, resumed_step in session.execute(query.order_by(Attempt.number.desc())):
        until[number] = limit
        if resumed_step is not None:
            limit = min(limit, resumed_step)
    return until


def _valid_points(points: Iterable[Row[Any]], valid_until: dict[int, float]) -> tuple[Sequence[float], Sequence[float]]:
    x, y = array("d"), array("d")
    newest_step = None
    for _, _, step, attempt, value, at_x in points:
        if step > valid_until.get(attempt, math.inf):
            continue
        if step == newest_step:  # rows of a step come in the order of attempts: the later one counts
            x[-1], y[-1] = at_x, value
            continue
        x.append(at_x)
        y.append(value)
        newest_step = step
    return x, y


def _columns_of(
    samples: Iterator[Row[Any]], metrics: int
) -> tuple[list[int | None], "array[float]", list["array[float]"]]:
    steps: list[int | None] = []
    x, values = array("d"), [array("d") for _ in range(metrics)]
    for _, _, _, _, step, seconds, *measured in samples:
        steps.append(step)
        x.append(seconds)
        for column, value in zip(values, measured, strict=True):
            column.append(_NAN if value is None else value)
    return steps, x, values


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
