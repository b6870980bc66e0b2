"""Student's t and Welch's interval against published figures."""

import math

import pytest

from jobs.insight.studies.statistics import difference, interval, student_t


@pytest.mark.parametrize(
    ("degrees", "t"),
    # NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2, upper critical values at 0.975
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (9, 2.262),
        (10, 2.228),
        (30, 2.042),
        (99, 1.984),
        (5000, 1.960),
    ],
)
def test_quantiles_match_published_tables(degrees: int, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, abs=0.0005)


def test_interval_matches_a_hand_calculation() -> None:
    found = interval([10.0, 12.0, 14.0])  # s = 2, s / sqrt(3) = 1.1547, t(2) = 4.3027

    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((12.0, 7.0317, 16.9683), abs=1e-4)
    assert found.values == [10.0, 12.0, 14.0]
    for values, bounds in (([3.0], (3.0, None, None)), ([5.0, 5.0], (5.0, 5.0, 5.0))):
        found = interval(values)
        assert found is not None
        assert (found.mean, found.low, found.high) == bounds
    assert interval([]) is None


def test_welch_interval_matches_a_hand_calculation() -> None:
    # s^2 / n are 0.5 and 2, the error sqrt(2.5) = 1.5811; 2.5^2 / (0.5^2 / 4 + 2^2 / 4) = 5.88 degrees: t(5) = 2.5706
    found = difference([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    assert found == pytest.approx((-3 - 4.0645, -3 + 4.0645), abs=1e-3)
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, 1.0), "without spread it is a point"
    assert difference([2.0], [1.0, 1.5]) is None
    low, high = difference([1.0, 1.0 + 1e-160], [1.0, 3.0]) or (0.0, 0.0)
    assert low < -1 < high
    low, high = difference([2.6, 5.2, 7.8], [3.3, 5.9, 8.5]) or (0.0, 0.0)  # equal variances: all degrees of freedom
    assert high - low == pytest.approx(2 * student_t(4) * math.sqrt(2 * 6.76 / 3))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -1e200])
def test_values_that_cannot_be_averaged_are_left_out(odd: float) -> None:
    found = interval([odd, 1.0, odd, 3.0])
    assert found is not None
    assert (found.mean, found.values) == (2.0, [1.0, 3.0])
    assert interval([odd, odd]) is None
