"""Chooses the points of a long series that a chart needs: nothing is averaged, and no one-sample spike is lost.

Called by `jobs.telemetry.series` and `jobs.telemetry.samples` when series are read. `jobs.telemetry.outline` chooses
the points of old series that stay in the database.

Touching memory for the first time costs more than the arithmetic here. So long series are handled in pieces.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tsdownsample import MinMaxDownsampler

FEWEST_POINTS = 4  # the first, the newest, and the extremes of one bin
_STRETCH = 64  # points by which the noise around a point is judged
_PIECE = 128 * _STRETCH

Numbers = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
_minmax: Any = MinMaxDownsampler()  # type: ignore[no-untyped-call]


def points_to_show(values: Numbers, max_points: int) -> Indices:
    """Ascending indices of at most `max_points` of `values`: the first, the newest, spikes and extremes.

    Half of them are the points that stand out most from their neighbours. (Equal bins alone have room for one spike
    each, and often two spikes lie in one bin.) The rest are the least and the greatest of as many equal bins as there
    is room for. Values that are not finite are skipped; if a bin has no other, one of them stays, so that a gap stays a
    gap. `max_points` is at least `FEWEST_POINTS`.
    """
    count = len(values)
    if count <= max_points:
        return np.arange(count)
    finite = np.isfinite(values)
    if finite.all():
        return _distinct([0, count - 1], _standing_out(values, max_points - 2))
    present = np.flatnonzero(finite)
    bins = max(1, (max_points - 2) // 4)
    gaps = _gaps(present, count, bins)
    inside = present[_standing_out(values[present], max_points - 2 - len(gaps))]
    return _distinct([0, count - 1], gaps, inside)


def _distinct(*some: npt.ArrayLike) -> Indices:
    indices: Indices = np.unique(np.concatenate(some))
    return indices


def _gaps(present: Indices, count: int, bins: int) -> Indices:
    """The first index of each bin in which no value is finite."""
    filled = np.zeros(bins, dtype=bool)
    filled[present * bins // count] = True
    starts: Indices = -(-np.flatnonzero(~filled) * count // bins)
    return starts


def _standing_out(numbers: Numbers, most: int) -> Indices:
    """Indices of at most `most` numbers (2 or more): the farthest from their neighbours, and extremes of equal bins."""
    if not len(numbers):
        return np.empty(0, dtype=np.intp)
    spikes = _outstanding(numbers, most // 2 - 1)
    bins = (most - len(spikes)) // 2
    return np.concatenate((spikes, _minmax.downsample(numbers, n_out=2 * bins).astype(np.intp)))


def _outstanding(numbers: Numbers, most: int) -> Indices:
    """Indices of the numbers farthest from their neighbours: half by distance, half relative to the noise around.

    By distance alone, a noisy part would leave no room for the spikes of a quiet part.
    """
    if most < 1 or len(numbers) < 5:
        return np.empty(0, dtype=np.intp)
    distance = _distances(numbers)
    far = _greatest(distance, most - most // 2)
    clear = _by_noise(distance)
    clear[far] = 0
    both: Indices = np.concatenate((far, _greatest(clear, most // 2)))
    return both[distance[both] > 0]


def _distances(numbers: Numbers) -> Numbers:
    """How far each number is from the median of itself and two on either side, as a share of the greatest number.

    At the ends it is the median of the five nearest.
    """
    peak = max(-numbers.min(), numbers.max()) or 1.0  # scaled by it, differences cannot overflow
    distance = np.empty_like(numbers)
    for start in range(0, len(numbers) - 4, _PIECE):
        part = numbers[start : start + _PIECE + 4] / peak
        a, b, c, d, e = (part[shift : len(part) - 4 + shift] for shift in range(5))
        low = np.maximum(np.minimum(a, b), np.minimum(c, d))
        high = np.minimum(np.maximum(a, b), np.maximum(c, d))
        low, high = np.minimum(low, high), np.maximum(low, high)
        median = np.maximum(low, np.minimum(high, e))
        np.abs(c - median, out=distance[start + 2 : start + len(part) - 2])
        if start == 0:
            distance[:2] = np.abs(part[:2] - median[0])
    distance[-2:] = np.abs(part[-2:] - median[-1])
    return distance


def _by_noise(distance: Numbers) -> Numbers:
    """Distances relative to the noise around: to the mean of the lower three quarters of each piece of 64."""
    clear = np.empty_like(distance)
    width = min(_STRETCH, len(distance))
    inside, quiet = len(distance) // width * width, width * 3 // 4
    nearly_nothing = 1e-9 * distance.max() + 1e-300
    usual = np.empty((0, 1))
    for start in range(0, inside, _PIECE):
        stretches = distance[start : min(start + _PIECE, inside)].reshape(-1, width)
        usual = np.partition(stretches, quiet, axis=1)[:, :quiet].mean(axis=1, keepdims=True) + nearly_nothing
        np.divide(stretches, usual, out=clear[start : start + stretches.size].reshape(-1, width))
    np.divide(distance[inside:], usual[-1, 0], out=clear[inside:])
    return clear


def _greatest(numbers: Numbers, most: int) -> Indices:
    """Indices of the `most` greatest of some numbers, none of which is negative."""
    if most < 1:
        return np.empty(0, dtype=np.intp)
    tops = np.maximum.reduceat(numbers, np.arange(0, len(numbers), _STRETCH))
    # `most` pieces have a number that is at least this great, so smaller ones are not among the greatest.
    least = np.partition(tops, len(tops) - most)[len(tops) - most] if most < len(tops) else 0.0
    candidates: Indices = np.flatnonzero(numbers >= least)
    if most >= len(candidates):
        return candidates
    best: Indices = np.argpartition(numbers[candidates], len(candidates) - most)[-most:]
    return candidates[best]
