"""The mean curve of a cell's repeats and its range."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.insight.studies.mean_curves import mean_curve


def test_a_curve_has_the_mean_and_the_range_over_the_epochs_of_all_repeats() -> None:
    curve = mean_curve([{1: 1.0, 2: 0.5, 3: 0.2}, {1: 2.0, 2: 1.5}, {1: 3.0, 2: 0.1, 3: 9.0}], most=10)

    assert curve is not None
    assert (curve.repeats, curve.epoch) == (3, [1, 2])
    assert (curve.mean, curve.low, curve.high) == ([2, 0.7], [1, 0.1], [3, 1.5])
    assert mean_curve([], most=10) is mean_curve([{1: 1.0}, {2: 1.0}], most=10) is None


@pytest.mark.parametrize("odd", [nan, inf, -1e308])
def test_values_that_are_no_number_are_gaps(odd: float) -> None:
    curve = mean_curve([{1: 1.0, 2: odd, 3: 3.0}, {1: 1.0, 2: 2.0, 3: 3.0}], most=10)
    assert curve is not None
    assert curve.mean == curve.low == curve.high == [1, None, 3]


def test_many_epochs_are_joined_and_no_extreme_is_lost() -> None:
    values = {epoch: 100.0 if epoch == 501 else float(epoch % 2) for epoch in range(1, 1001)}
    curve = mean_curve([values], most=10)

    assert curve is not None
    assert (len(curve.epoch), curve.epoch[0], curve.epoch[-1]) == (10, 51, 951)
    assert curve.high == [1, 1, 1, 1, 1, 100, 1, 1, 1, 1]
    assert curve.low == [0] * 10
    assert curve.mean[0] == 0.5


values = st.floats(allow_nan=True, width=32)
series = st.dictionaries(st.integers(1, 30), values, min_size=1, max_size=30)


@given(st.lists(series, min_size=1, max_size=4), st.integers(1, 8))
def test_the_mean_lies_in_the_range(repeats: list[dict[int, float]], most: int) -> None:
    curve = mean_curve(repeats, most=most)
    if curve is None:
        return
    assert len(curve.epoch) <= most
    assert curve.epoch == sorted(set(curve.epoch))
    for mean, low, high in zip(curve.mean, curve.low, curve.high, strict=True):
        assert (mean is None) == (low is None) == (high is None)
        if mean is not None and low is not None and high is not None:
            slack = 1e-4 * max(abs(low), abs(high))
            assert low - slack <= mean <= high + slack
