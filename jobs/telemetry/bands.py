"""Bands: count, least, greatest, mean and 95th percentile of each part of a series. Pure.

`jobs.telemetry.series` and `jobs.telemetry.samples` make bands of points, and of the roll-ups that
`jobs.telemetry.thinning` left where it removed points.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jobs.telemetry.axes import AxisRange, Positions

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """The figures of some neighbouring points. `p95` is the least value that 95 % of them do not exceed."""

    x_from: float  # of the first of them
    x_to: float
    count: int  # of the points that are numbers
    min: float
    max: float
    mean: float
    p95: float


def bands_of(x: Positions, y: Numbers, *, rollups: Sequence[Band], x_range: AxisRange, count: int) -> list[Band]:
    """At most `count` bands of equal width. Bands without a number are left out.

    A roll-up counts in the band that contains its middle. The `p95` of such a band is the greatest one of its parts, so
    it is never below the true one.
    """
    present = np.isfinite(y)
    x, y = x[present], y[present]
    if not len(x) and not rollups:
        return []
    middles = np.array([(band.x_from + band.x_to) / 2 for band in rollups])
    ends = np.concatenate((x, [band.x_from for band in rollups], [band.x_to for band in rollups]))
    start = float(ends.min()) if x_range.start is None else x_range.start
    end = float(ends.max()) if x_range.end is None else x_range.end
    parts: defaultdict[int, list[Band]] = defaultdict(list)
    for middle, band in zip(middles, rollups, strict=True):
        parts[int(_places(middle, start, end, count))].append(band)
    places = _places(x, start, end, count)
    order = np.argsort(places, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(places[order])) + 1):
        if len(some):
            parts[int(places[some[0]])].append(band_of(x[some], y[some]))
    return [combined(parts[place]) for place in sorted(parts)]


def band_of(x: Positions, y: Numbers) -> Band:
    """One band of points: at least one, and all of them numbers."""
    rank = (95 * len(y) + 99) // 100 - 1
    return Band(
        x_from=float(x.min()), x_to=float(x.max()), count=len(y), min=float(y.min()), max=float(y.max()),
        mean=mean_of(y), p95=float(np.partition(y, rank)[rank]),
    )  # fmt: skip


def combined(bands: Sequence[Band]) -> Band:
    """Several bands as one."""
    if len(bands) == 1:
        return bands[0]
    count = sum(band.count for band in bands)
    return Band(
        x_from=min(band.x_from for band in bands), x_to=max(band.x_to for band in bands), count=count,
        min=min(band.min for band in bands), max=max(band.max for band in bands),
        mean=sum(band.mean * (band.count / count) for band in bands), p95=max(band.p95 for band in bands),
    )  # fmt: skip


def mean_of(y: Numbers) -> float:
    """The mean. It is finite if the values are, although their sum may not be."""
    return float((y / len(y)).sum())


def uncovered(position: npt.NDArray[np.int64], covered: Iterable[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Which positions lie in none of the covered ranges, which do not overlap."""
    ordered = sorted(covered)
    if not ordered:
        return np.ones(len(position), dtype=bool)
    firsts, lasts = (np.array(ends, dtype=np.int64) for ends in zip(*ordered, strict=True))
    place = np.searchsorted(firsts, position, side="right") - 1
    outside: npt.NDArray[np.bool_] = (place < 0) | (position > lasts[np.maximum(place, 0)])
    return outside


def _places(x: Positions, start: float, end: float, count: int) -> npt.NDArray[np.int64]:
    width = (end - start) or 1.0
    places: npt.NDArray[np.int64] = np.clip(np.floor((x - start) / width * count), 0, count - 1).astype(np.int64)
    return places
