"""Thinning: bounded, in order, and true to the extremes."""

from math import isnan, nan

from hypothesis import given
from hypothesis import strategies as st

from jobs.thinning import FEWEST_POINTS, kept

values = st.lists(st.floats(-1e9, 1e9) | st.just(nan) | st.none(), max_size=300)


@given(values, st.integers(FEWEST_POINTS, 60))
def test_ends_and_order_are_kept_within_the_bound(y: list[float | None], most: int) -> None:
    indices = list(kept(y, most))

    assert len(indices) <= most
    assert indices == sorted(set(indices))
    if y:
        assert (indices[0], indices[-1]) == (0, len(y) - 1)


@given(st.integers(0, 9_999), st.floats(2, 1e9), st.sampled_from([1, -1]), st.integers(6, 500))
def test_a_spike_anywhere_is_kept(at: int, height: float, sign: int, most: int) -> None:
    y = [(i % 11) / 11 for i in range(10_000)]
    y[at] = sign * height

    assert at in kept(y, most)


def test_a_series_that_fits_is_kept_whole() -> None:
    assert list(kept(range(10), 10)) == list(range(10))


def test_where_there_is_nothing_but_nan_some_of_it_is_kept() -> None:
    y = [1.0] * 500 + [nan] * 500

    assert any(isnan(y[i]) for i in kept(y, 20))
    assert len(kept([None] * 1000, 20)) > 2
