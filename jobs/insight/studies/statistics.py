"""Means and differences of a few repeats, with their 95 % confidence intervals. Pure.

The repeats of a cell are taken for independent draws of a normal variable, as Student (1908) and Welch (1947) do.
"""

from collections.abc import Sequence
from functools import cache
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, variance

from jobs.views.studies import Interval

_CONFIDENCE = 0.95


def interval(values: Sequence[float]) -> Interval | None:
    """The mean of the values and mean ± t(0.975, n - 1) s / sqrt(n); of one value the mean alone, of none nothing."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean=mean, low=None, high=None, values=list(values))
    half = student_t(len(values) - 1) * sqrt(variance(values) / len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half, values=list(values))


def difference(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """The interval of mean(values) - mean(others), whose variances may differ; None where one is a single value.

    Welch (1947), Biometrika 34: 28-35. The degrees of freedom are rounded down, which makes it a little wider.
    """
    if min(len(values), len(others)) < 2:
        return None
    squares = [variance(each) / len(each) for each in (values, others)]
    between, total = fmean(values) - fmean(others), sum(squares)
    if total == 0:
        return between, between
    shares = [(square / total) ** 2 / (len(each) - 1) for square, each in zip(squares, (values, others), strict=True)]
    half = student_t(max(1, int(1 / sum(shares)))) * sqrt(total)
    return between - half, between + half


@cache
def student_t(degrees: int) -> float:
    """The t that 95 % of Student's distribution with so many degrees of freedom lie within: its 0.975 quantile."""
    low, high = 0.0, 13.0  # 12.71 is that of one degree, the greatest there is
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < _CONFIDENCE else (low, middle)
    return (low + high) / 2


def _within(t: float, degrees: int) -> float:
    """The probability that |T| < t: the finite sums of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4."""
    angle = atan(t / sqrt(degrees))
    odd = degrees % 2
    term = cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
