"""Bands of points and roll-ups, and the scale of epochs: the arithmetic alone."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.telemetry.axes import WHOLE_AXIS, AxisRange, scale_of
from jobs.telemetry.bands import Band, band_of, bands_of, combined, uncovered
from jobs.telemetry.downsampling import Numbers

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def numbers(some: list[float]) -> Numbers:
    return np.array(some, dtype=np.float64)


def whole(y: list[float]) -> Band:
    return band_of(np.arange(len(y)) * 1.0, numbers(y))


@given(values)
def test_a_band_has_the_figures_of_its_points(y: list[float]) -> None:
    band = whole(y)

    assert (band.x_from, band.x_to, band.count, band.min, band.max) == (0, len(y) - 1, len(y), min(y), max(y))
    assert band.mean == pytest.approx(math.fsum(y) / len(y), abs=1e-6)
    assert band.p95 in y
    not_above, below = (sum(test) for test in ([v <= band.p95 for v in y], [v < band.p95 for v in y]))
    assert Fraction(not_above, len(y)) >= Fraction(95, 100) > Fraction(below, len(y))


@given(st.lists(values, min_size=1, max_size=5))
def test_combined_bands_match_a_band_of_all_points_with_p95_at_least_as_high(parts: list[list[float]]) -> None:
    together, every = combined([whole(part) for part in parts]), whole([y for part in parts for y in part])

    assert (together.count, together.min, together.max) == (every.count, every.min, every.max)
    assert together.mean == pytest.approx(every.mean, abs=1e-6)
    assert together.p95 >= every.p95


@given(values, st.integers(1, 20))
def test_bands_do_not_overlap_and_count_every_number_once(y: list[float], count: int) -> None:
    with_gaps = numbers([*y, math.nan, math.inf])
    bands = bands_of(np.arange(len(with_gaps)), with_gaps, rollups=[], x_range=WHOLE_AXIS, count=count)

    assert len(bands) <= count
    assert sum(band.count for band in bands) == len(y)
    assert all(one.x_to < other.x_from for one, other in pairwise(bands))


def test_bands_divide_the_requested_range_and_empty_ones_are_left_out() -> None:
    x = np.arange(10, 20)
    bands = bands_of(x, x * 1.0, rollups=[], x_range=AxisRange(0, 40), count=4)

    assert [(band.x_from, band.x_to, band.mean) for band in bands] == [(10, 19, 14.5)]
    assert bands_of(x[:0], x[:0] * 1.0, rollups=[], x_range=AxisRange(0, 40), count=4) == []


def test_roll_up_counts_in_the_band_that_contains_its_middle() -> None:
    rollups = [Band(0, 9, 10, 1, 5, 2, 4), Band(10, 19, 30, 2, 9, 6, 8), Band(20, 29, 5, 0, 1, 0.5, 1)]
    first, second = bands_of(numbers([35]), numbers([7]), rollups=rollups, x_range=AxisRange(0, 40), count=2)

    assert first == Band(0, 19, 40, 1, 9, 5, 8)
    assert second == Band(20, 35, 6, 0, 7, pytest.approx(9.5 / 6), 7)


def test_points_in_roll_ups_are_not_counted_again() -> None:
    alone = uncovered(np.arange(12), [(8, 9), (2, 4)])

    assert np.flatnonzero(alone).tolist() == [0, 1, 5, 6, 7, 10, 11]
    assert uncovered(np.arange(3), []).all()


def test_step_maps_to_an_epoch_by_the_step_count_of_that_epoch() -> None:
    scale = scale_of([(1, 100), (2, 150)], steps_per_epoch=50)  # the second epoch has half the steps
    assert scale is not None
    steps = np.array([0, 50, 70, 100, 125, 150, 175, 200, 300])

    assert scale.epochs_of(steps).tolist() == [0, 0.5, 0.7, 1, 1.5, 2, 2.5, 3, 5]
    assert scale.steps_in(AxisRange(0.5, 3.5)) == AxisRange(pytest.approx(49), pytest.approx(226))
    assert scale.steps_in(AxisRange(None, 1)) == AxisRange(None, 101)


def test_scale_uses_the_planned_steps_until_the_first_epoch_ends() -> None:
    scale = scale_of([], steps_per_epoch=40)

    assert scale is not None
    assert scale.epochs_of(np.array([10, 40])).tolist() == pytest.approx([0.25, 1])
    assert scale_of([], steps_per_epoch=None) is None
    unplanned = scale_of([(1, 20)], steps_per_epoch=None)
    assert unplanned is not None
    assert unplanned.epochs_of(np.array([30])).tolist() == pytest.approx([1.5])
