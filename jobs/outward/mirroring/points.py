"""The points of a job as another tracking server gets them: steps for its curves, seconds for what its GPUs did."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Float, cast, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, MetricBlock, MetricPoint, Sample
from jobs.telemetry.axes import start_of, valid_until
from jobs.telemetry.blocks import at_ticks, floats, integers, steps_of
from jobs.telemetry.ingest import ALL_RANKS
from jobs.telemetry.sampled_metrics import SLOT_METRICS

# One an epoch of all ranks together; and of rank 0 at each so many-th step.
_EPOCH_METRICS = ("loss", "accuracy", "val_loss", "val_accuracy", "learning_rate", "samples_per_s", "epoch_s",
                  "data_wait_s", "allreduce_s")  # fmt: skip
_STEP_METRICS = ("loss", "accuracy", "step_time_s", "data_wait_s", "allreduce_s", "samples_per_s")
_SAMPLED = {name: metric.mirrored for name, metric in SLOT_METRICS.items() if metric.mirrored is not None}
_SETTLING = timedelta(seconds=15)  # until the samples of all hosts are stored
_EACH_S = 512.0


class Point(NamedTuple):
    """A value of a metric."""

    key: str
    value: float
    at_ms: int
    step: int


def metrics(session: Session, job: Job, *, after: int, until: float, every: int) -> list[Point]:
    """The metrics behind one step and up to another, by step: all that are one an epoch, others at each `every`-th.

    What a restart made void is left out, and so is what is no number.
    """
    found: dict[tuple[str, int], tuple[int, Point]] = {}  # the later attempt's, where two wrote a step
    for attempt, point in (*_unpacked(session, job, after, until, every), *_packed(session, job, after, until, every)):
        place = (point.key, point.step)
        if math.isfinite(point.value) and (place not in found or found[place][0] < attempt):
            found[place] = (attempt, point)
    return sorted((point for _, point in found.values()), key=lambda point: (point.step, point.key))


def _unpacked(session: Session, job: Job, after: int, until: float, every: int) -> Iterator[tuple[int, Point]]:
    point, void = MetricPoint, valid_until(job.id)
    rows = session.execute(
        select(point.attempt, point.name, point.rank, point.value, point.at, point.step)
        .outerjoin(void, void.c.number == point.attempt)
        .where(point.job_id == job.id, point.name.in_({*_EPOCH_METRICS, *_STEP_METRICS}))
        .where(point.rank.in_([ALL_RANKS, 0]), point.step > after)
        .where(or_(void.c.step.is_(None), point.step <= void.c.step))
    )
    for attempt, name, rank, value, at, step in rows:
        if step <= until and (rank == ALL_RANKS or step % every == 0):
            yield attempt, Point(_key(name, rank), value, _ms(at), step)


def _packed(session: Session, job: Job, after: int, until: float, every: int) -> Iterator[tuple[int, Point]]:
    block, void = MetricBlock, valid_until(job.id)
    rows = session.execute(
        select(block.attempt, block.name, block.first_step, block.last_step, block.steps, block.times, block.numbers)
        .add_columns(void.c.step)
        .outerjoin(void, void.c.number == block.attempt)
        .where(block.job_id == job.id, block.name.in_(_STEP_METRICS), block.rank == 0, block.last_step > after)
        .execution_options(yield_per=100)
    )
    for attempt, name, first, last, gaps, times, numbers, void_after in rows:
        steps, end = steps_of(first, last, gaps), until if void_after is None else min(until, void_after)
        these = (steps > after) & (steps <= end) & (steps % every == 0)
        columns = steps[these], integers(times)[these], floats(numbers)[these]
        for step, ticks, value in zip(*(column.tolist() for column in columns), strict=True):
            yield attempt, Point(_key(name, 0), value, _ms(at_ticks(ticks)), step)


def _key(name: str, rank: int) -> str:
    return name if rank == ALL_RANKS else f"step/{name}"


def samples(
    session: Session, job: Job, *, after: datetime | None, period_s: float
) -> tuple[list[Point], datetime | None]:
    """What the job's slots did after a time, and up to when that is all. The step is the second since its start.

    A sample that was stored late, when this was past it already, is left out.
    """
    attempts = select(Attempt.number).where(Attempt.job_id == job.id)
    where: list[ColumnElement[bool]] = [Sample.rank.in_(range(max(job.gpus, int(job.plan["gpus"]))))]
    if after is not None:
        attempts = attempts.where(or_(Attempt.ended_at.is_(None), Attempt.ended_at > after))
        where.append(Sample.at > after)
    if job.ended_at is None:
        where.append(Sample.at <= func.now() - _SETTLING)
    # All columns of the key are named, so that of a long job only what is new is looked at.
    where += [Sample.job_id == job.id, Sample.attempt.in_(session.scalars(attempts).all())]
    second = cast(func.extract("epoch", Sample.at - start_of(job)), Float(53))
    columns = [getattr(Sample, name) for name in _SAMPLED]
    rows = session.execute(
        select(Sample.rank, Sample.at, second, *columns)
        .where(*where, _is_taken(second, period_s))
        .order_by(Sample.at, Sample.rank)
    ).all()
    found = [
        Point(mirrored.name.format(rank=rank), value / mirrored.divisor, _ms(at), max(0, round(since_start)))
        for rank, at, since_start, *values in rows
        for mirrored, value in zip(_SAMPLED.values(), values, strict=True)
        if value is not None
    ]
    return found, rows[-1].at if rows else after


def _is_taken(second: ColumnElement[float], period_s: float) -> ColumnElement[bool]:
    """Every sample at first, then the first of ever longer stretches: 1 s, from second 512 on 2 s, from 1024 on 4 s."""
    doublings = func.floor(func.ln(func.greatest(second, 1.0) / _EACH_S) / math.log(2)) + 1
    stretch_s = func.power(2.0, func.greatest(doublings, 0.0), type_=Float(53))
    return second - stretch_s * func.floor(second / stretch_s) < period_s


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
