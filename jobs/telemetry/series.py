"""Reads the metrics of jobs as series. Called by the api; `jobs.telemetry.ingest` writes them.

The database sends the points of a series as bytes, a thousand or more at a time (`jobs.telemetry.blocks`). That is a
hundredth of the work of rows. `jobs.telemetry.samples` does the same for utilization.
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
from jobs.telemetry.axes import WHOLE_AXIS, Axis, AxisRange, EpochScale, Positions, epoch_scales, start_of, valid_until
from jobs.telemetry.bands import Band
from jobs.telemetry.blocks import finite_or_none, floats, integers, seconds_since, steps_of
from jobs.telemetry.downsampling import points_to_show
from jobs.telemetry.ingest import ALL_RANKS, RANK_EPOCH_METRICS, is_one_an_epoch
from jobs.telemetry.rollups import NO_ROLLUPS, rollups_of

_AT_ONCE = 500_000  # the most points of a series in memory, unless bands need all of them

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
ToX = Callable[[Integers, bytes | None], Positions]


@dataclass(frozen=True)
class MetricSeries:
    """A metric of one rank (-1: over all ranks, one point an epoch). A value that is not finite is None."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]
    bands: Sequence[Band] = ()


@dataclass(frozen=True)
class Points:
    """Points of a series, ascending by step."""

    steps: Integers
    x: Positions
    y: Numbers

    def at(self, which: npt.NDArray[Any]) -> "Points":
        """Some of the points, by index or mask."""
        return Points(self.steps[which], self.x[which], self.y[which])


class _Key(NamedTuple):
    """What identifies a series."""

    job_id: str
    name: str
    rank: int


class _Part(NamedTuple):
    """Points of one attempt in a series, as bytes (`jobs.telemetry.blocks`)."""

    job_id: str
    name: str
    rank: int
    attempt: int
    first_step: int
    last_step: int
    steps: bytes | None
    place: bytes | None  # epochs or times, if the axis needs them
    numbers: bytes

    @property
    def series(self) -> _Key:
        """The series that it is a part of."""
        return _Key(self.job_id, self.name, self.rank)


@dataclass(frozen=True)
class _Request:
    """Which series of which jobs to read, and which part of which axis. No names, or no ranks: all."""

    jobs: Sequence[Job]
    names: Sequence[str]
    ranks: Sequence[int]
    axis: Axis
    x_range: AxisRange

    def scales(self, session: Session) -> Mapping[str, EpochScale | None]:
        """By job the scale that puts points of every step on the epoch axis."""
        return epoch_scales(session, self.jobs) if self.axis == "epoch" and self.names else {}


def metrics(
    session: Session,
    job: Job,
    *,
    names: Sequence[str] = (),
    ranks: Sequence[int] = (),
    axis: Axis = "step",
    x_range: AxisRange = WHOLE_AXIS,
    max_points: int = 1000,
    bands: int = 0,
) -> list[MetricSeries]:
    """The metrics of a job, sorted by name and rank.

    On the epoch axis these are the metrics with one value an epoch, and others that are named; of these none while the
    number of steps of an epoch is unknown. Points that an attempt wrote beyond the step from which a later attempt
    resumed are void and left out.
    """
    request = _Request([job], names, ranks, axis, x_range)
    scales = request.scales(session)
    scale = scales.get(job.id)
    rollups = rollups_of(session, job, "metric", axis=axis, scale=scale, x_range=x_range) if bands else {}
    series_found = []
    for (_, name, rank), points in _read(session, request, scales, at_once=None if bands else _AT_ONCE):
        old = rollups.get((name, rank, 0), NO_ROLLUPS)
        band_list = old.bands(points.steps, points.x, points.y, x_range=x_range, count=bands)
        series_found.append(_metric_series(name, rank, points, max_points, band_list))
    return series_found


def means(session: Session, job: Job, *, rank: int) -> dict[str, tuple[float, int]]:
    """The mean of the values of each metric of a rank that are numbers, and how many these are. Reads all points."""
    by_name = {}
    request = _Request([job], (), [rank], "step", WHOLE_AXIS)
    for key, points in _read(session, request, {}, at_once=None):
        values = points.y[np.isfinite(points.y)]
        if len(values):
            with np.errstate(over="ignore"):  # then the mean is infinite
                by_name[key.name] = float(values.mean()), len(values)
    return by_name


def metrics_of_jobs(
    session: Session,
    jobs: Sequence[Job],
    *,
    names: Sequence[str],
    ranks: Sequence[int],
    axis: Axis = "step",
    x_range: AxisRange = WHOLE_AXIS,
    max_points: int = 1000,
) -> dict[str, list[MetricSeries]]:
    """Some metrics of many jobs, by job id, as `metrics` returns them for one; in as many statements as for one."""
    request = _Request(jobs, names, ranks, axis, x_range)
    series_of_jobs: dict[str, list[MetricSeries]] = {job.id: [] for job in jobs}
    for (job_id, name, rank), points in _read(session, request, request.scales(session), at_once=_AT_ONCE):
        series_of_jobs[job_id].append(_metric_series(name, rank, points, max_points))
    return series_of_jobs


def _metric_series(name: str, rank: int, points: Points, max_points: int, bands: Sequence[Band] = ()) -> MetricSeries:
    keep = points_to_show(points.y, max_points)
    return MetricSeries(name, rank, points.x[keep].tolist(), finite_or_none(points.y[keep]), bands)


def _read(
    session: Session, request: _Request, scales: Mapping[str, EpochScale | None], *, at_once: int | None
) -> Iterator[tuple[_Key, Points]]:
    """The valid points of each series that has any, sorted by job, name and rank."""
    by_id = {job.id: job for job in request.jobs}
    voids = session.execute(select(valid_until(*by_id)))
    void_after = {(row.job_id, row.number): row.step for row in voids}
    parts = _parts(session, request, _in_steps(request, scales))
    for key, of_series in groupby(parts, key=lambda part: part.series):
        has_own_epochs = request.axis != "epoch" or is_one_an_epoch(key.name, key.rank)
        scale = None if has_own_epochs else scales.get(key.job_id)
        if scale is None and not has_own_epochs:
            continue  # before its first epoch ended: nobody knows where in an epoch a step lies
        to_x = _to_x(by_id[key.job_id], request.axis, scale)
        readable = (
            _points(part, to_x, request.x_range, void_after.get((part.job_id, part.attempt))) for part in of_series
        )
        points = _joined(readable, at_once=at_once)
        if len(points.y):
            yield key, points


_BLOCKS = """
    SELECT job_id, name, rank, attempt, first_step, last_step, steps, {place}, numbers
    FROM metric_blocks WHERE {conditions}
"""
_POINTS = """
    SELECT job_id, name, rank, attempt, min(step), max(step), string_agg(int8send(step), '' ORDER BY step), {place},
        string_agg(float8send(value), '' ORDER BY step)
    FROM metric_points WHERE {conditions} GROUP BY job_id, name, rank, attempt
"""
_PLACES: dict[Axis, tuple[str, str]] = {
    "step": ("NULL", "NULL"),
    "epoch": ("epochs", "string_agg(int4send(epoch), '' ORDER BY step)"),
    "time": ("times", "string_agg(timestamptz_send(at), '' ORDER BY step)"),
}


def _parts(session: Session, request: _Request, steps: AxisRange) -> Iterator[_Part]:
    """The blocks of each series and attempt, and its single points as one more part, sorted by step.

    One statement reads both: between two, points could move into a block.
    """
    conditions = "job_id = ANY(%(jobs)s)"
    if request.names:
        conditions += " AND name = ANY(%(names)s)"
    elif request.axis == "epoch":
        conditions += " AND (rank = %(all_ranks)s OR name = ANY(%(one_an_epoch)s))"
    if request.ranks:
        conditions += " AND rank = ANY(%(ranks)s)"
    of_block = of_point = conditions
    if steps.start is not None:
        of_block, of_point = f"{of_block} AND last_step >= %(start)s", f"{of_point} AND step >= %(start)s"
    if steps.end is not None:
        of_block, of_point = f"{of_block} AND first_step <= %(end)s", f"{of_point} AND step <= %(end)s"
    blocks, points = (
        form.format(place=place, conditions=condition)
        for form, place, condition in zip((_BLOCKS, _POINTS), _PLACES[request.axis], (of_block, of_point), strict=True)
    )
    values = {
        "jobs": [job.id for job in request.jobs], "names": list(request.names), "ranks": list(request.ranks),
        "start": steps.start, "end": steps.end,
        "all_ranks": ALL_RANKS, "one_an_epoch": list(RANK_EPOCH_METRICS),
    }  # fmt: skip
    return map(_Part._make, streamed(session, f"{blocks} UNION ALL {points} ORDER BY 1, 2, 3, 4, 5", values))


def _in_steps(request: _Request, scales: Mapping[str, EpochScale | None]) -> AxisRange:
    """The steps between which the range of every job lies, so that the database sends no others."""
    if request.axis == "step":
        return request.x_range
    known = [scale.steps_in(request.x_range) for scale in scales.values() if scale is not None]
    if not known or len(known) < len(scales):
        return WHOLE_AXIS
    starts = [steps.start for steps in known if steps.start is not None]
    ends = [steps.end for steps in known if steps.end is not None]
    return AxisRange(min(starts, default=None), max(ends, default=None))


def _to_x(job: Job, axis: Axis, scale: EpochScale | None) -> ToX:
    """The function that turns steps, and the epochs or times that came with them, into positions on the axis."""
    match axis:
        case "step":
            return lambda steps, _: steps
        case "epoch" if scale is not None:
            return lambda steps, _: scale.epochs_of(steps)
        case "epoch":
            return lambda _, place: integers(place or b"", "i4")
        case "time":
            return lambda _, place: seconds_since(start_of(job), integers(place or b""))


def _points(part: _Part, to_x: ToX, x_range: AxisRange, until: int | None) -> Points:
    """The valid points of a part that lie in the range."""
    steps = steps_of(part.first_step, part.last_step, part.steps)
    points = Points(steps, to_x(steps, part.place), floats(part.numbers))
    inside = x_range.contains(points.x)
    if until is not None:
        inside &= steps <= until
    return points if inside.all() else points.at(inside)


def _joined(parts: Iterable[Points], *, at_once: int | None) -> Points:
    """All points of a series, one a step. If two attempts wrote a step, the later one counts.

    Of more than `at_once` points only those stay that a chart needs.
    """
    parts_so_far: list[Points] = []
    count = 0
    for part in parts:
        parts_so_far.append(part)
        count += len(part.y)
        if at_once is not None and count > at_once:
            points = _in_order(parts_so_far)
            parts_so_far, count = [points.at(points_to_show(points.y, at_once // 4))], at_once // 4
    return _in_order(parts_so_far)


def _in_order(parts: Sequence[Points]) -> Points:
    steps = np.concatenate([part.steps for part in parts])
    x = steps if all(part.x is part.steps for part in parts) else np.concatenate([part.x for part in parts])
    points = Points(steps, x, np.concatenate([part.y for part in parts]))
    if (steps[1:] > steps[:-1]).all():
        return points
    points = points.at(np.argsort(steps, kind="stable"))
    return points.at(np.append(points.steps[1:] > points.steps[:-1], True))
