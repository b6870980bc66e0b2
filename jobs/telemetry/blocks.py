"""Blocks: many points of a series in one row. Written by `jobs.telemetry.ingest`, read by `jobs.telemetry.series`.

A row for each point takes 170 bytes, and a hundred thousand of them are slow to store and to read. So:

- Several points of a series that arrive together are stored as a block, a row of `metric_blocks`. Fewer points are
  rows of `metric_points`.
- When an attempt passes a multiple of `BLOCK` steps, its earlier rows and small blocks become one block for each
  series, in the transaction that stored the newest point.
- A value with one point an epoch stays a row.

A point is in one of the two tables, never in both.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.db.tables import MetricBlock

BLOCK = 1024
_SEVERAL = 8  # so many points of a series become a block
_SMALL = BLOCK // 2  # steps; larger blocks are not merged
EPOCH_OF_TIMES = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts microseconds from here

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
# The columns of metric_points: a `jobs.telemetry.ingest.MetricRow` is one.
Point = tuple[str, str, int, int, int, int, datetime, float]
Series = tuple[str, str, int, int]  # job, name, rank, attempt

_OWN = "job_id = :job_id AND name = ANY(:names) AND rank = :rank AND attempt = :attempt"
_MERGE = text(f"""
    WITH points AS (
        DELETE FROM metric_points WHERE {_OWN} AND step < :before
        RETURNING name, step, epoch, at, value
    ), blocks AS (
        DELETE FROM metric_blocks
        WHERE {_OWN} AND first_step >= :since AND first_step < :before AND last_step - first_step < :small
        RETURNING name, first_step, last_step, steps, epochs, times, numbers
    ), parts AS (
        SELECT name, step AS first, step AS last, int8send(step) AS steps,
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


def by_series(points: Iterable[Point]) -> dict[Series, list[Point]]:
    """The points of each series of an attempt, in their sequence."""
    series: dict[Series, list[Point]] = {}
    for point in points:
        series.setdefault((point[0], point[1], point[2], point[4]), []).append(point)
    return series


def blocks_and_points(each_step: Mapping[Series, Sequence[Point]]) -> tuple[list[BlockRow], list[Point]]:
    """Divide points of every step into blocks, where a series has several, and single points."""
    blocks: list[BlockRow] = []
    single_points: list[Point] = []
    for points in each_step.values():
        block = _block(points) if len(points) >= _SEVERAL else None
        if block is None:
            single_points += points
        else:
            blocks.append(block)
    return blocks, single_points


def _block(points: Sequence[Point]) -> BlockRow | None:
    """One block of points of a series; None if their steps do not ascend."""
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
    """The steps in a batch of one rank of one attempt, and the names of their series."""

    first: int
    newest: int
    names: list[str] = field(default_factory=list)


def merge_into_blocks(session: Session, each_step: Mapping[Series, Sequence[Point]]) -> None:
    """Merge the series that passed the end of a block with these points of every step, which were just stored."""
    written: dict[tuple[str, int, int], _Written] = {}
    for (job_id, name, rank, attempt), points in each_step.items():
        steps = [point[3] for point in points]
        of_rank = written.setdefault((job_id, rank, attempt), _Written(steps[0], steps[0]))
        of_rank.names.append(name)
        of_rank.first, of_rank.newest = min(of_rank.first, *steps), max(of_rank.newest, *steps)
    for (job_id, rank, attempt), of_rank in written.items():
        before = of_rank.newest // BLOCK * BLOCK
        if of_rank.first - 1 < before:  # the attempt passed it with this batch
            own = {"job_id": job_id, "names": sorted(of_rank.names), "rank": rank, "attempt": attempt}
            since = (of_rank.first - 1) // BLOCK * BLOCK
            session.execute(_MERGE, {**own, "since": since, "before": before, "small": _SMALL})


def points_of_block(block: MetricBlock) -> Iterator[Point]:
    """The points of a block."""
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
    """Numbers as PostgreSQL sends them: float8."""
    return np.frombuffer(data, dtype=">f8").astype(np.float64)


def finite_or_none(values: Numbers) -> list[float | None]:
    """Values for JSON, which has no NaN and no infinity: they become None."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def seconds_since(start: datetime, ticks: Integers) -> Numbers:
    """Ticks (see `ticks_of`) as seconds since `start`."""
    return (ticks - ticks_of(start)) / 1e6


def ticks_of(at: datetime) -> int:
    """A time in ticks, as PostgreSQL counts them: microseconds since 2000."""
    return (at - EPOCH_OF_TIMES) // timedelta(microseconds=1)


def at_ticks(ticks: int) -> datetime:
    """The time of a number of ticks."""
    return EPOCH_OF_TIMES + timedelta(microseconds=int(ticks))
