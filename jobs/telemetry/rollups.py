"""Roll-ups: what is left, in figures, of a stretch of a series that was thinned.

`jobs.telemetry.thinning` has them made and stores them; `jobs.telemetry.series` and `jobs.telemetry.samples` read them
for bands.
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
from jobs.telemetry.axes import Axis, EpochScale, Places, Stretch, start_of
from jobs.telemetry.bands import Band, band_of, bands_of, uncovered
from jobs.telemetry.blocks import ticks_of

Source = Literal["metric", "sample"]
Series = tuple[str, int, int]  # name, rank, attempt; of a metric the attempt is 0
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rolled:
    """The roll-ups of a series on an axis, and what they cover: steps of a metric, times (in ticks) of samples."""

    covered: list[tuple[int, int]] = field(default_factory=list)
    parts: list[Band] = field(default_factory=list)

    def bands(
        self, positions: npt.NDArray[np.int64], x: Places, y: Numbers, *, stretch: Stretch, count: int
    ) -> Sequence[Band]:
        """So many bands of roll-ups and of points: those at positions that no roll-up covers."""
        if not count:
            return ()
        alone = uncovered(positions, self.covered)
        return bands_of(x[alone], y[alone], rolled=self.parts, stretch=stretch, count=count)


NOT_ROLLED = Rolled()


def rolled_up(
    session: Session, job: Job, source: Source, *, axis: Axis, scale: EpochScale | None, stretch: Stretch
) -> dict[Series, Rolled]:
    """The roll-ups of a job that lie in a stretch of an axis, by their middle."""
    found: dict[Series, Rolled] = {}
    if job.ended_at is None:  # none was made yet
        return found
    for row in session.scalars(select(Rollup).where(Rollup.job_id == job.id, Rollup.source == source)):
        rolled = found.setdefault((row.name, row.rank, row.attempt), Rolled())
        ticks = ticks_of(row.first_at), ticks_of(row.last_at)
        rolled.covered.append(ticks if source == "sample" else (row.first_step or 0, row.last_step or 0))
        ends = _on_axis(row, axis, scale, job)
        if ends is None or row.least is None or not stretch.has(np.array([sum(ends) / 2]))[0]:
            continue
        rolled.parts.append(Band(*ends, row.count, row.least, row.greatest or 0.0, row.mean or 0.0, row.p95 or 0.0))
    return found


def _on_axis(row: Rollup, axis: Axis, scale: EpochScale | None, job: Job) -> tuple[float, float] | None:
    """Where a roll-up's first and last point lie; None where that is not known."""
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
    """A point of a series, or a sample with all that was measured."""

    place: str  # in the table
    position: Any
    attempt: int
    step: int | None
    epoch: int | None
    at: datetime
    values: Sequence[float | None]


def figures_of(columns: Sequence[str], points: Sequence[StoredPoint]) -> Iterator[dict[str, Any]]:
    """What these points come to, as columns of `Rollup`: once for each column of theirs that has a number."""
    for place, name in enumerate(columns):
        there = [point for point in points if _is_number(point.values[place])]
        if there:
            values = np.array([point.values[place] for point in there], dtype=np.float64)
            yield {"name": name, **_ends(there), **_came_to(values)}


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _ends(points: Sequence[StoredPoint]) -> dict[str, Any]:
    steps = [point.step for point in points if point.step is not None]
    epochs = [point.epoch for point in points if point.epoch is not None]
    return {
        "first_step": min(steps, default=None), "last_step": max(steps, default=None),
        "first_epoch": min(epochs, default=None), "last_epoch": max(epochs, default=None),
        "first_at": min(point.at for point in points), "last_at": max(point.at for point in points),
    }  # fmt: skip


def _came_to(values: Numbers) -> dict[str, Any]:
    band = band_of(values, values)
    return {"count": band.count, "least": band.min, "greatest": band.max, "mean": band.mean, "p95": band.p95}
