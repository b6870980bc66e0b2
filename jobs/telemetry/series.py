"""The reading side of the series: a job's metrics. Called by the api; `jobs.telemetry.ingest` writes them.

The database hands over the points of a series in bytes, a thousand or more at a time (`jobs.telemetry.blocks`): a
hundredth of the work that rows are. `jobs.telemetry.samples` does the same for utilization.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.binary_rows import streamed
from jobs.db.tables import Job
from jobs.telemetry.axes import EVERYTHING, Axis, EpochScale, Places, Stretch, epoch_scales, start_of, valid_until
from jobs.telemetry.bands import Band
from jobs.telemetry.blocks import finite_or_none, floats, integers, seconds_since, steps_of
from jobs.telemetry.downsampling import kept
from jobs.telemetry.ingest import ALL_RANKS, RANK_EPOCH_METRICS, is_one_an_epoch
from jobs.telemetry.rollups import NOT_ROLLED, rolled_up

_AT_ONCE = 500_000  # points of a series in memory, unless bands are made of them

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
ToX = Callable[[Integers, bytes | None], Places]


@dataclass(frozen=True)
class MetricSeries:
    """A metric of one rank (-1: over all ranks, one point an epoch). A value that is no number is None."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]
    bands: Sequence[Band] = ()


@dataclass(frozen=True)
class Points:
    """Points of a series, ascending by step."""

    steps: Integers
    x: Places
    y: Numbers

    def at(self, which: npt.NDArray[Any]) -> "Points":
        """Some of them, by index or mask."""
        return Points(self.steps[which], self.x[which], self.y[which])


class _Key(NamedTuple):
    """Which series it is."""

    job_id: str
    name: str
    rank: int


class _Part(NamedTuple):
    """Points of one attempt in a series, in the bytes of `jobs.telemetry.blocks`."""

    job_id: str
    name: str
    rank: int
    attempt: int
    first_step: int
    last_step: int
    steps: bytes | None
    place: bytes | None  # epochs or times, where the axis needs them
    numbers: bytes

    @property
    def series(self) -> _Key:
        """Which one it is a part of."""
        return _Key(self.job_id, self.name, self.rank)


@dataclass(frozen=True)
class _Asked:
    """Which series of which jobs, and where on which axis; no names, or no ranks: all."""

    jobs: Sequence[Job]
    names: Sequence[str]
    ranks: Sequence[int]
    axis: Axis
    stretch: Stretch

    def scales(self, session: Session) -> Mapping[str, EpochScale | None]:
        """By job, where it is on the epoch axis what is one a step."""
        return epoch_scales(session, self.jobs) if self.axis == "epoch" and self.names else {}


def metrics(
    session: Session,
    job: Job,
    *,
    names: Sequence[str] = (),
    ranks: Sequence[int] = (),
    axis: Axis = "step",
    stretch: Stretch = EVERYTHING,
    max_points: int = 1000,
    bands: int = 0,
) -> list[MetricSeries]:
    """The metrics of a job, ordered by name and rank.

    On the epoch axis these are those that are one an epoch; the others too, where they are asked for by name. What an
    attempt wrote beyond the step from which a later one went on is void and left out.
    """
    asked = _Asked([job], names, ranks, axis, stretch)
    scales = asked.scales(session)
    scale = scales.get(job.id)
    rolled = rolled_up(session, job, "metric", axis=axis, scale=scale, stretch=stretch) if bands else {}
    found = []
    for (_, name, rank), points in _read(session, asked, scales, at_once=None if bands else _AT_ONCE):
        old = rolled.get((name, rank, 0), NOT_ROLLED)
        told = old.bands(points.steps, points.x, points.y, stretch=stretch, count=bands)
        found.append(_shown(name, rank, points, max_points, told))
    return found


def metrics_of(
    session: Session,
    jobs: Sequence[Job],
    *,
    names: Sequence[str],
    ranks: Sequence[int],
    axis: Axis = "step",
    stretch: Stretch = EVERYTHING,
    max_points: int = 1000,
) -> dict[str, list[MetricSeries]]:
    """Some metrics of many jobs, by job, as `metrics` has them of one; in as many statements as for one."""
    asked = _Asked(jobs, names, ranks, axis, stretch)
    found: dict[str, list[MetricSeries]] = {job.id: [] for job in jobs}
    for (job_id, name, rank), points in _read(session, asked, asked.scales(session), at_once=_AT_ONCE):
        found[job_id].append(_shown(name, rank, points, max_points))
    return found


def _shown(name: str, rank: int, points: Points, max_points: int, bands: Sequence[Band] = ()) -> MetricSeries:
    keep = kept(points.y, max_points)
    return MetricSeries(name, rank, points.x[keep].tolist(), finite_or_none(points.y[keep]), bands)


def _read(
    session: Session, asked: _Asked, scales: Mapping[str, EpochScale | None], *, at_once: int | None
) -> Iterator[tuple[_Key, Points]]:
    """The points that count of each series that has some, in the order of jobs, names and ranks."""
    by_id = {job.id: job for job in asked.jobs}
    voids = session.execute(select(valid_until(*by_id)))
    void_after = {(row.job_id, row.number): row.step for row in voids}
    parts = _parts(session, asked, _in_steps(asked, scales))
    for key, of_series in groupby(parts, key=lambda part: part.series):
        scale = None if is_one_an_epoch(key.name, key.rank) else scales.get(key.job_id)
        to_x = _to_x(by_id[key.job_id], asked.axis, scale)
        readable = (
            _points(part, to_x, asked.stretch, void_after.get((part.job_id, part.attempt))) for part in of_series
        )
        points = _joined(readable, at_once=at_once)
        if len(points.y):
            yield key, points


_BLOCKS = """
    SELECT job_id, name, rank, attempt, first_step, last_step, steps, {place}, numbers FROM metric_blocks WHERE {where}
"""
_POINTS = """
    SELECT job_id, name, rank, attempt, min(step), max(step), string_agg(int8send(step), '' ORDER BY step), {place},
        string_agg(float8send(value), '' ORDER BY step)
    FROM metric_points WHERE {where} GROUP BY job_id, name, rank, attempt
"""
_PLACES: dict[Axis, tuple[str, str]] = {
    "step": ("NULL", "NULL"),
    "epoch": ("epochs", "string_agg(int4send(epoch), '' ORDER BY step)"),
    "time": ("times", "string_agg(timestamptz_send(at), '' ORDER BY step)"),
}


def _parts(session: Session, asked: _Asked, steps: Stretch) -> Iterator[_Part]:
    """The blocks of each series and attempt, and what is not packed as one more, in the order of their steps.

    In one statement: between two, points could be packed.
    """
    where = "job_id = ANY(%(jobs)s)"
    if asked.names:
        where += " AND name = ANY(%(names)s)"
    elif asked.axis == "epoch":
        where += " AND (rank = %(all_ranks)s OR name = ANY(%(one_an_epoch)s))"
    if asked.ranks:
        where += " AND rank = ANY(%(ranks)s)"
    of_block = of_point = where
    if steps.start is not None:
        of_block, of_point = f"{of_block} AND last_step >= %(start)s", f"{of_point} AND step >= %(start)s"
    if steps.end is not None:
        of_block, of_point = f"{of_block} AND first_step <= %(end)s", f"{of_point} AND step <= %(end)s"
    blocks, points = (
        form.format(place=place, where=only)
        for form, place, only in zip((_BLOCKS, _POINTS), _PLACES[asked.axis], (of_block, of_point), strict=True)
    )
    values = {
        "jobs": [job.id for job in asked.jobs], "names": list(asked.names), "ranks": list(asked.ranks),
        "start": steps.start, "end": steps.end,
        "all_ranks": ALL_RANKS, "one_an_epoch": list(RANK_EPOCH_METRICS),
    }  # fmt: skip
    return map(_Part._make, streamed(session, f"{blocks} UNION ALL {points} ORDER BY 1, 2, 3, 4, 5", values))


def _in_steps(asked: _Asked, scales: Mapping[str, EpochScale | None]) -> Stretch:
    """Where in steps the stretch of any job lies at most, so that the database need not hand over the rest."""
    if asked.axis == "step":
        return asked.stretch
    known = [scale.steps_in(asked.stretch) for scale in scales.values() if scale is not None]
    if not known or len(known) < len(scales):
        return EVERYTHING
    starts = [steps.start for steps in known if steps.start is not None]
    ends = [steps.end for steps in known if steps.end is not None]
    return Stretch(min(starts, default=None), max(ends, default=None))


def _to_x(job: Job, axis: Axis, scale: EpochScale | None) -> ToX:
    """What makes the place on an axis of steps and of what came with them."""
    match axis:
        case "step":
            return lambda steps, _: steps
        case "epoch" if scale is not None:
            return lambda steps, _: scale.epochs_of(steps)
        case "epoch":
            return lambda _, place: integers(place or b"", "i4")
        case "time":
            return lambda _, place: seconds_since(start_of(job), integers(place or b""))


def _points(part: _Part, to_x: ToX, stretch: Stretch, until: int | None) -> Points:
    """The points of a block, or of what is not packed, that count and that are asked for."""
    steps = steps_of(part.first_step, part.last_step, part.steps)
    points = Points(steps, to_x(steps, part.place), floats(part.numbers))
    inside = stretch.has(points.x)
    if until is not None:
        inside &= steps <= until
    return points if inside.all() else points.at(inside)


def _joined(parts: Iterable[Points], *, at_once: int | None) -> Points:
    """All points of a series, one a step: where two attempts wrote it, the later one's.

    Of more than `at_once` only those are kept that a chart would need.
    """
    held: list[Points] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part.y)
        if at_once is not None and count > at_once:
            points = _in_order(held)
            held, count = [points.at(kept(points.y, at_once // 4))], at_once // 4
    return _in_order(held)


def _in_order(parts: Sequence[Points]) -> Points:
    steps = np.concatenate([part.steps for part in parts])
    x = steps if all(part.x is part.steps for part in parts) else np.concatenate([part.x for part in parts])
    points = Points(steps, x, np.concatenate([part.y for part in parts]))
    if (steps[1:] > steps[:-1]).all():
        return points
    points = points.at(np.argsort(steps, kind="stable"))
    return points.at(np.append(points.steps[1:] > points.steps[:-1], True))
