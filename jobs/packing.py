"""Packing: points of a long series, a thousand in one row. Called by `jobs.ingest`, read by `jobs.series`.

A row for each point takes 170 bytes and is slow to read by the hundred thousand. So when an attempt's steps pass a
multiple of `BLOCK`, its points before that leave `metric_points` for one row of `metric_blocks` a series, in the
transaction that stored the newest. A point is in one of the two tables, never in both. What is one an epoch stays a
row; so do the newest steps.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.tables import MetricBlock

BLOCK = 1024
EPOCH_OF_TIMES = datetime(2000, 1, 1, tzinfo=UTC)  # what PostgreSQL counts microseconds from

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
# In the order of the columns of metric_points: a `jobs.ingest.MetricRow` is one.
Point = tuple[str, str, int, int, int, int, datetime, float]

_PACK = text("""
    WITH gone AS (
        DELETE FROM metric_points
        WHERE job_id = :job_id AND name = ANY(:names) AND rank = :rank AND attempt = :attempt AND step < :before
        RETURNING name, step, epoch, at, value
    )
    INSERT INTO metric_blocks (job_id, name, rank, attempt, first_step, last_step, steps, epochs, times, numbers)
    SELECT :job_id, name, :rank, :attempt, min(step), max(step),
        CASE WHEN max(step) - min(step) + 1 > count(*) THEN string_agg(int8send(step), '' ORDER BY step) END,
        string_agg(int4send(epoch), '' ORDER BY step), string_agg(timestamptz_send(at), '' ORDER BY step),
        string_agg(float8send(value), '' ORDER BY step)
    FROM gone GROUP BY name
""")


@dataclass
class _Written:
    """The steps that a batch has of one rank of one attempt, and the series they are in."""

    first: int
    newest: int
    names: set[str] = field(default_factory=set)


def pack(session: Session, points: Iterable[Point]) -> None:
    """Pack the series of these points that passed the end of a block. They were just stored, and are one a step."""
    written: dict[tuple[str, int, int], _Written] = {}
    for job_id, name, rank, step, attempt, _epoch, _at, _value in points:
        steps = written.setdefault((job_id, rank, attempt), _Written(step, step))
        steps.names.add(name)
        steps.first, steps.newest = min(steps.first, step), max(steps.newest, step)
    for (job_id, rank, attempt), steps in written.items():
        before = steps.newest // BLOCK * BLOCK
        if steps.first - 1 < before:  # with or within this batch the attempt passed it
            of = {"job_id": job_id, "names": sorted(steps.names), "rank": rank, "attempt": attempt, "before": before}
            session.execute(_PACK, of)


def unpacked(block: MetricBlock) -> Iterator[Point]:
    """The points that the block was made of."""
    steps = steps_of(block.first_step, block.last_step, block.steps)
    columns = (steps, integers(block.epochs, "i4"), integers(block.times), floats(block.numbers))
    for step, epoch, ticks, value in zip(*(column.tolist() for column in columns), strict=True):
        yield block.job_id, block.name, block.rank, step, block.attempt, epoch, at_ticks(ticks), value


def steps_of(first: int, last: int, data: bytes | None) -> Integers:
    """The steps of a block."""
    return np.arange(first, last + 1) if data is None else integers(data)


def integers(data: bytes, kind: str = "i8") -> Integers:
    """Whole numbers as PostgreSQL sends them: int8 or a time, and int4 where `kind` is i4."""
    return np.frombuffer(data, dtype=f">{kind}").astype(np.int64)


def floats(data: bytes) -> Numbers:
    """The same, of float8."""
    return np.frombuffer(data, dtype=">f8").astype(np.float64)


def finite_or_none(values: Numbers) -> list[float | None]:
    """Values for JSON, which has finite ones only."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def seconds_since(start: datetime, ticks: Integers) -> Numbers:
    """Times, as PostgreSQL counts them, in seconds since one of them."""
    return (ticks - ticks_of(start)) / 1e6


def ticks_of(at: datetime) -> int:
    """A time as PostgreSQL counts it."""
    return (at - EPOCH_OF_TIMES) // timedelta(microseconds=1)


def at_ticks(ticks: int) -> datetime:
    """The time that PostgreSQL counts so."""
    return EPOCH_OF_TIMES + timedelta(microseconds=int(ticks))
