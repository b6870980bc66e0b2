"""Roll-ups: the figures of all points in a bin of a series that was thinned.

`jobs.telemetry.thinning` stores them. `jobs.telemetry.series` and `jobs.telemetry.samples` read them for bands.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Rollup
from jobs.telemetry.axes import Axis, AxisRange, EpochScale, Positions, start_of
from jobs.telemetry.bands import Band, band_of, bands_of, uncovered
from jobs.telemetry.blocks import ticks_of

Source = Literal["metric", "sample"]
Series = tuple[str, int, int]  # name, rank, attempt; the attempt of a metric is 0
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SeriesRollups:
    """The roll-ups of a series on an axis, and what they cover: steps for a metric, ticks for samples."""

    covered: list[tuple[int, int]] = field(default_factory=list)
    parts: list[Band] = field(default_factory=list)

    def bands(
        self, positions: npt.NDArray[np.int64], x: Positions, y: Numbers, *, x_range: AxisRange, count: int
    ) -> Sequence[Band]:
        """`count` bands of the roll-ups and of the points at positions that no roll-up covers."""
        if not count:
            return ()
        alone = uncovered(positions, self.covered)
        return bands_of(x[alone], y[alone], rollups=self.parts, x_range=x_range, count=count)


NO_ROLLUPS = SeriesRollups()


def rollups_of(
    session: Session, job: Job, source: Source, *, axis: Axis, scale: EpochScale | None, x_range: AxisRange
) -> dict[Series, SeriesRollups]:
    """The roll-ups of a job whose middle lies in a range of an axis, by series."""
    by_series: dict[Series, SeriesRollups] = {}
    if job.ended_at is None:  # thinning comes after the end
        return by_series
    for row in session.scalars(select(Rollup).where(Rollup.job_id == job.id, Rollup.source == source)):
        of_series = by_series.setdefault((row.name, row.rank, row.attempt), SeriesRollups())
        ticks = ticks_of(row.first_at), ticks_of(row.last_at)
        of_series.covered.append(ticks if source == "sample" else (row.first_step or 0, row.last_step or 0))
        ends = _on_axis(row, axis, scale, job)
        if ends is None or row.least is None or not x_range.contains(np.array([sum(ends) / 2]))[0]:
            continue
        of_series.parts.append(Band(*ends, row.count, row.least, row.greatest or 0.0, row.mean or 0.0, row.p95 or 0.0))
    return by_series


def _on_axis(row: Rollup, axis: Axis, scale: EpochScale | None, job: Job) -> tuple[float, float] | None:
    """The positions of a roll-up's first and last point; None if unknown."""
    if axis == "time":
        start = start_of(job)
        return (row.first_at - start).total_seconds(), (row.last_at - start).total_seconds()
    if row.first_step is None or row.last_step is None:
        return None
    if axis == "step":
        return row.first_step, row.last_step
    if scale is None:
        return None
    first, last = scale.epochs_of(np.array([row.first_step, row.last_step])).tolist()
    return first, last


class StoredPoint(NamedTuple):
    """A stored point of a metric, or a sample with the values of all its metrics."""

    place: str  # in the table: its ctid
    position: Any
    attempt: int
    step: int | None
    epoch: int | None
    at: datetime
    values: Sequence[float | None]


def figures_of(columns: Sequence[str], points: Sequence[StoredPoint]) -> Iterator[dict[str, Any]]:
    """The figures of these points as columns of `Rollup`: once for each of `columns` that has a number."""
    for place, name in enumerate(columns):
        there = [point for point in points if _is_number(point.values[place])]
        if there:
            values = np.array([point.values[place] for point in there], dtype=np.float64)
            yield {"name": name, **_end_columns(there), **_band_columns(values)}


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _end_columns(points: Sequence[StoredPoint]) -> dict[str, Any]:
    steps = [point.step for point in points if point.step is not None]
    epochs = [point.epoch for point in points if point.epoch is not None]
    return {
        "first_step": min(steps, default=None), "last_step": max(steps, default=None),
        "first_epoch": min(epochs, default=None), "last_epoch": max(epochs, default=None),
        "first_at": min(point.at for point in points), "last_at": max(point.at for point in points),
    }  # fmt: skip


def _band_columns(values: Numbers) -> dict[str, Any]:
    band = band_of(values, values)
    return {"count": band.count, "least": band.min, "greatest": band.max, "mean": band.mean, "p95": band.p95}
