"""The points of a job for another tracking server: curves by step, samples of its slots by second."""

import math
import posixpath
import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Float, cast, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.tables import Attempt, Job, MetricBlock, MetricPoint, Sample
from jobs.model.tasks import TRAINED_METRICS, epoch_metrics
from jobs.telemetry.axes import start_of, valid_until
from jobs.telemetry.blocks import at_ticks, floats, integers, steps_of
from jobs.telemetry.ingest import ALL_RANKS, RANK_EPOCH_METRICS
from jobs.telemetry.sampled_metrics import SLOT_METRICS

# Over all ranks, once an epoch; and of rank 0, at every n-th step.
_EPOCH_METRICS = ("learning_rate", *epoch_metrics("auto"))
_STEP_METRICS = (*TRAINED_METRICS, "step_time_s", "data_wait_s", "allreduce_s", "samples_per_s")
_SAMPLED = {name: metric.mirrored for name, metric in SLOT_METRICS.items() if metric.mirrored is not None}
_NOT_IN_A_KEY = re.compile(r"[^A-Za-z0-9_.\-/ ]")
_SETTLING = timedelta(seconds=15)  # until the samples of all hosts are stored
_ALL_SENT_S = 512.0  # up to this second every sample is sent


class Point(NamedTuple):
    """A value of a metric."""

    key: str
    value: float
    at_ms: int
    step: int


def metrics(session: Session, job: Job, *, after: int, until: float, every: int) -> list[Point]:
    """The metrics after one step and up to another, sorted by step: once an epoch, and at each `every`-th step.

    Points that a restart made void, and values that are not finite, are left out.
    """
    newest: dict[tuple[str, int], tuple[int, Point]] = {}  # if two attempts wrote a step: the later one's
    for attempt, point in (
        *_from_rows(session, job, after, until, every),
        *_from_blocks(session, job, after, until, every),
    ):
        place = (point.key, point.step)
        if math.isfinite(point.value) and (place not in newest or newest[place][0] < attempt):
            newest[place] = (attempt, point)
    return sorted((point for _, point in newest.values()), key=lambda point: (point.step, point.key))


def _from_rows(session: Session, job: Job, after: int, until: float, every: int) -> Iterator[tuple[int, Point]]:
    point, void = MetricPoint, valid_until(job.id)
    rows = session.execute(
        select(point.attempt, point.name, point.rank, point.value, point.at, point.step)
        .outerjoin(void, void.c.number == point.attempt)
        .where(point.job_id == job.id, _is_sent_of(job, point.name, {*_EPOCH_METRICS, *_STEP_METRICS}))
        .where(point.rank.in_([ALL_RANKS, 0]), point.step > after)
        .where(or_(void.c.step.is_(None), point.step <= void.c.step))
    )
    for attempt, name, rank, value, at, step in rows:
        if step <= until and (rank == ALL_RANKS or step % every == 0):
            yield attempt, Point(_key(name, rank), value, _ms(at), step)


def _from_blocks(session: Session, job: Job, after: int, until: float, every: int) -> Iterator[tuple[int, Point]]:
    block, void = MetricBlock, valid_until(job.id)
    rows = session.execute(
        select(block.attempt, block.name, block.first_step, block.last_step, block.steps, block.times, block.numbers)
        .add_columns(void.c.step)
        .outerjoin(void, void.c.number == block.attempt)
        .where(block.job_id == job.id, block.rank == 0, block.last_step > after)
        .where(_is_sent_of(job, block.name, _STEP_METRICS))
        .execution_options(yield_per=100)
    )
    for attempt, name, first, last, gaps, times, numbers, void_after in rows:
        steps, end = steps_of(first, last, gaps), until if void_after is None else min(until, void_after)
        these = (steps > after) & (steps <= end) & (steps % every == 0)
        columns = steps[these], integers(times)[these], floats(numbers)[these]
        for step, ticks, value in zip(*(column.tolist() for column in columns), strict=True):
            yield attempt, Point(_key(name, 0), value, _ms(at_ticks(ticks)), step)


def _is_sent_of(job: Job, column: InstrumentedAttribute[str], names: Collection[str]) -> ColumnElement[bool]:
    """Whether a metric is sent: these of Hora's own loop, and all that a script reports."""
    return column.in_(names) if job.code is None else column.not_in(RANK_EPOCH_METRICS)


def _key(name: str, rank: int) -> str:
    """The name there. MLflow refuses some characters, and names that are no plain paths."""
    key = _NOT_IN_A_KEY.sub("_", name)
    key = key if posixpath.normpath(key) == key else key.replace("/", "_")
    return key if rank == ALL_RANKS else f"step/{key}"


def samples(
    session: Session, job: Job, *, after: datetime | None, period_s: float
) -> tuple[list[Point], datetime | None]:
    """The samples of the job's slots after a time, and the time up to which they are complete.

    The step of a point is the second since the job's start. Samples that were stored too late are left out.
    """
    attempts = select(Attempt.number).where(Attempt.job_id == job.id)
    conditions: list[ColumnElement[bool]] = [Sample.rank.in_(range(max(job.gpus, int(job.plan["gpus"]))))]
    if after is not None:
        attempts = attempts.where(or_(Attempt.ended_at.is_(None), Attempt.ended_at > after))
        conditions.append(Sample.at > after)
    if job.ended_at is None:
        conditions.append(Sample.at <= func.now() - _SETTLING)
    # All columns of the key are named, so that only the new samples of a long job are read.
    conditions += [Sample.job_id == job.id, Sample.attempt.in_(session.scalars(attempts).all())]
    second = cast(func.extract("epoch", Sample.at - start_of(job)), Float(53))
    columns = [getattr(Sample, name) for name in _SAMPLED]
    rows = session.execute(
        select(Sample.rank, Sample.at, second, *columns)
        .where(*conditions, _is_sent(second, period_s))
        .order_by(Sample.at, Sample.rank)
    ).all()
    points = [
        Point(mirrored.name.format(rank=rank), value / mirrored.divisor, _ms(at), max(0, round(since_start)))
        for rank, at, since_start, *values in rows
        for mirrored, value in zip(_SAMPLED.values(), values, strict=True)
        if value is not None
    ]
    return points, rows[-1].at if rows else after


def _is_sent(second: ColumnElement[float], period_s: float) -> ColumnElement[bool]:
    """Every sample at first, then the first in every 2 s (from second 512 on), 4 s (from 1024 on), and so on."""
    doublings = func.floor(func.ln(func.greatest(second, 1.0) / _ALL_SENT_S) / math.log(2)) + 1
    stretch_s = func.power(2.0, func.greatest(doublings, 0.0), type_=Float(53))
    return second - stretch_s * func.floor(second / stretch_s) < period_s


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
