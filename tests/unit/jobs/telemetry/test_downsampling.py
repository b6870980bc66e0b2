"""Downsampling: bounded, in order, and every spike is kept."""

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.telemetry.downsampling import FEWEST_POINTS, Indices, Numbers, points_to_show

POINTS = 20_000
SPIKES = 50
LOUD_FROM = 156 * 64  # noise is judged by stretches of 64 points

values = st.lists(st.floats(-1e308, 1e308) | st.sampled_from([nan, np.inf, -np.inf]), max_size=300)


def numbers(some: list[float]) -> Numbers:
    return np.array(some, dtype=np.float64)


@given(values, st.integers(FEWEST_POINTS, 60))
def test_downsampling_keeps_ends_extremes_and_order_within_the_limit(y: list[float], most: int) -> None:
    indices = points_to_show(numbers(y), most).tolist()

    assert len(indices) <= most
    assert indices == sorted(set(indices))
    if y:
        assert (indices[0], indices[-1]) == (0, len(y) - 1)
    finite, left = (some[np.isfinite(some)] for some in (numbers(y), numbers(y)[points_to_show(numbers(y), most)]))
    assert finite.min(initial=np.inf) == left.min(initial=np.inf)
    assert finite.max(initial=-np.inf) == left.max(initial=-np.inf)


@given(st.integers(0, 9_999), st.floats(2, 1e9), st.sampled_from([1, -1]), st.integers(FEWEST_POINTS, 500))
def test_a_spike_anywhere_is_kept(at: int, height: float, sign: int, most: int) -> None:
    y = np.arange(10_000) % 11 / 11
    y[at] = sign * height

    assert at in points_to_show(y, most)


def noise(seed: int) -> Numbers:
    return np.random.default_rng(seed).normal(size=POINTS)


GROUNDS = {
    "constant": lambda seed: np.zeros(POINTS),
    "ramp": lambda seed: np.arange(POINTS) / 7,
    "noise": noise,
    "noisy ramp": lambda seed: noise(seed) - np.arange(POINTS) / 30,
    "wave": lambda seed: 300 * np.sin(np.arange(POINTS) / 150) + noise(seed),
    "random walk": lambda seed: np.cumsum(noise(seed)),
    "loud and quiet": lambda seed: noise(seed) * np.where(np.arange(POINTS) < LOUD_FROM, 1, 1000),
    "gaps": lambda seed: np.where(np.arange(POINTS) % 100 < 60, noise(seed), nan),
}


def spikes(random: np.random.Generator, places: Indices, *, within: int) -> Indices:
    """A random choice of these places, with both ends. Some are neighbours or share a bin, no three lie within five."""
    start = random.integers(0, len(places) - within + 1)
    drawn = {0, 1, len(places) - 1, *random.choice(np.arange(start, start + within), SPIKES, replace=False).tolist()}
    apart: list[int] = []
    for place in sorted(drawn):
        if len(apart) < 2 or place - apart[-2] > 4:
            apart.append(place)
    return places[random.permutation(apart)[:SPIKES]]


@pytest.mark.parametrize("ground", GROUNDS)
@settings(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from([1000, 5000, 10_000]))
def test_all_of_fifty_spikes_are_kept_in_500_points(ground: str, seed: int, within: int) -> None:
    y = GROUNDS[ground](seed)
    random = np.random.default_rng(seed + 1)
    beside_the_border = np.abs(np.arange(POINTS) - LOUD_FROM) < 3  # where two loud points are neighbours of a quiet one
    at = spikes(random, np.flatnonzero(np.isfinite(y) & ~beside_the_border), within=within)
    heights = random.uniform(25, 400, len(at)) * random.choice([1, -1], len(at))
    y[at] += heights * np.where((at >= LOUD_FROM) & (ground == "loud and quiet"), 1000, 1)
    indices = points_to_show(y, 500)

    assert len(indices) <= 500
    assert set(at.tolist()) <= set(indices.tolist())


def test_every_stretch_of_a_series_keeps_points_and_one_that_fits_is_kept_whole() -> None:
    assert points_to_show(np.arange(10.0), 10).tolist() == list(range(10))
    assert np.diff(points_to_show(noise(1), 500)).max() < POINTS / 60
    y = numbers([1.0] * 500 + [nan] * 500)
    assert any(isnan(y[i]) for i in points_to_show(y, 20))
    assert len(points_to_show(np.full(1000, nan), 20)) > 2
