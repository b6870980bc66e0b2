"""Packing: the points of a series of every step, many in one row.

Called by `jobs.telemetry.ingest`, read by `jobs.telemetry.series`.

A row for each point takes 170 bytes, and is slow to store and to read by the hundred thousand. So where several points
of a series come at once they are a block from the start: a row of `metric_blocks`. Few are rows of `metric_points`. And
when an attempt's steps pass a multiple of `BLOCK`, the rows and the small blocks before that become one block a series,
in the transaction that stored the newest. A point is in one of the two tables, never in both. What is one an epoch
stays a row.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.db.tables import MetricBlock

BLOCK = 1024
_SEVERAL = 8  # points of a series, that are a block
_SMALL = BLOCK // 2  # steps; a larger block stays as it is
EPOCH_OF_TIMES = datetime(2000, 1, 1, tzinfo=UTC)  # what PostgreSQL counts microseconds from

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
# In the order of the columns of metric_points: a `jobs.telemetry.ingest.MetricRow` is one.
Point = tuple[str, str, int, int, int, int, datetime, float]

_OWN = "job_id = :job_id AND name = ANY(:names) AND rank = :rank AND attempt = :attempt"
_PACK = text(f"""
    WITH points AS (
        DELETE FROM metric_points WHERE {_OWN} AND step < :before
        RETURNING name, step, epoch, at, value
    ), blocks AS (
        DELETE FROM metric_blocks
        WHERE {_OWN} AND first_step >= :since AND first_step < :before AND last_step - first_step < :small
        RETURNING name, first_step, last_step, steps, epochs, times, numbers
    ), parts AS (
        SELECT name, step AS first, step AS last, NULL AS steps,
            int4send(epoch) AS epochs, timestamptz_send(at) AS times, float8send(value) AS numbers
        FROM points UNION ALL SELECT * FROM blocks
    )
    INSERT INTO metric_blocks (job_id, name, rank, attempt, first_step, last_step, steps, epochs, times, numbers)
    SELECT :job_id, name, :rank, :attempt, min(first), max(last),
        CASE WHEN max(last) - min(first) + 1 > sum(octet_length(numbers) / 8) THEN string_agg(coalesce(
            steps, (SELECT string_agg(int8send(step), '' ORDER BY step) FROM generate_series(first, last) step)
        ), '' ORDER BY first) END,
        string_agg(epochs, '' ORDER BY first), string_agg(times, '' ORDER BY first),
        string_agg(numbers, '' ORDER BY first)
    FROM parts GROUP BY name
""")  # noqa: S608 - put together of our own words


class BlockRow(NamedTuple):
    """A row of metric_blocks, without the id that the database gives."""

    job_id: str
    name: str
    rank: int
    attempt: int
    first_step: int
    last_step: int
    steps: bytes | None
    epochs: bytes
    times: bytes
    numbers: bytes


def split(points: Iterable[Point]) -> tuple[list[BlockRow], list[Point]]:
    """Blocks of those points, which are one a step, of which several come at once; and the others."""
    series: dict[tuple[str, str, int, int], list[Point]] = {}
    for point in points:
        series.setdefault((point[0], point[1], point[2], point[4]), []).append(point)
    blocks: list[BlockRow] = []
    others: list[Point] = []
    for some in series.values():
        block = _block(some) if len(some) >= _SEVERAL else None
        if block is None:
            others += some
        else:
            blocks.append(block)
    return blocks, others


def _block(points: Sequence[Point]) -> BlockRow | None:
    """One block of points of a series; None where they are not in order."""
    job_id, name, rank, _, attempt, *_ = points[0]
    steps = np.array([point[3] for point in points])
    gaps = np.diff(steps)
    if (gaps <= 0).any():
        return None
    return BlockRow(
        job_id, name, rank, attempt, int(steps[0]), int(steps[-1]),
        steps=None if (gaps == 1).all() else steps.astype(">i8").tobytes(),
        epochs=np.array([point[5] for point in points], dtype=">i4").tobytes(),
        times=np.array([ticks_of(point[6]) for point in points], dtype=">i8").tobytes(),
        numbers=np.array([point[7] for point in points], dtype=">f8").tobytes(),
    )  # fmt: skip


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
            own = {"job_id": job_id, "names": sorted(steps.names), "rank": rank, "attempt": attempt}
            since = (steps.first - 1) // BLOCK * BLOCK
            session.execute(_PACK, {**own, "since": since, "before": before, "small": _SMALL})


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
