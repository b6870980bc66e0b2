"""Means and differences of a few repeats, with their 95 % confidence intervals. Pure.

As in Student (1908) and Welch (1947), the repeats of a cell count as independent draws of a normal variable.
"""

from collections.abc import Sequence
from functools import cache
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, variance

from jobs.views.studies import Interval

_CONFIDENCE = 0.95
_LARGEST = 1e150  # the square of a larger number is none
_MOST_REPEATS = 100  # of a study


def is_usable(value: float | None) -> bool:
    """Whether figures can be computed of a value: it is not NaN, not infinite, and its square is not either."""
    return value is not None and abs(value) < _LARGEST


def interval(values: Sequence[float]) -> Interval | None:
    """The mean of n values, and mean ± t(0.975, n - 1) s / sqrt(n). One value has no interval; no value gives None.

    Values that are not usable are left out.
    """
    values = [value for value in values if is_usable(value)]
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean=mean, low=None, high=None, values=list(values))
    half = student_t(len(values) - 1) * sqrt(variance(values) / len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half, values=list(values))


def difference(values: Sequence[float], base_values: Sequence[float]) -> tuple[float, float] | None:
    """The interval of mean(values) - mean(base_values); their variances may differ. None if either is a single value.

    Welch (1947), Biometrika 34: 28-35. The degrees of freedom are rounded down, which widens it a little.
    """
    if min(len(values), len(base_values)) < 2:
        return None
    squares = [variance(each) / len(each) for each in (values, base_values)]
    between, total = fmean(values) - fmean(base_values), sum(squares)
    if total == 0:
        return between, between
    half = student_t(welch_degrees(squares, (len(values), len(base_values)))) * sqrt(total)
    return between - half, between + half


def welch_degrees(squares: Sequence[float], counts: Sequence[int]) -> int:
    """The degrees of freedom of a difference of means, rounded down; at least 1.

    `squares` are the squared standard errors of the two means, not both 0. `counts` are the numbers of their values.
    """
    total = sum(squares)
    shares = [(square / total) ** 2 / (count - 1) for square, count in zip(squares, counts, strict=True)]
    return max(1, int(1 / sum(shares) + 1e-9))  # equal variances give a whole number, and must not lose one


def verdict(away: float, chance: float, *, negligible: float, tolerance: float) -> bool | None:
    """Whether two means agree that are `away` from each other, where chance alone explains ± `chance`.

    False: they differ by more than chance, and not by a negligible amount. True: with 95 % confidence they differ by no
    more than the tolerance, as in a test of equivalence (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15: 657-680).
    None: neither is shown. That a difference may be chance does not show that there is none.
    """
    if away > chance and away >= negligible:
        return False
    return True if away + chance <= tolerance else None


def repeats_to_tell(away: float, spread: float, *, tolerance: float = 0.0, more_than: int = 1) -> int | None:
    """The number of repeats that would give a `verdict`, if the difference and the spread stay as they were seen.

    `spread` is the standard deviation of the difference of two single runs. n repeats of both explain a difference of
    t(0.975, 2n - 2) spread / sqrt(n): Student's interval for the difference of two means of n values (Snedecor and
    Cochran 1989, Statistical Methods, 8th edition, chapter 6). None: more repeats than a study can have.
    """
    for repeats in range(more_than + 1, _MOST_REPEATS + 1):
        if (
            verdict(away, student_t(2 * repeats - 2) * spread / sqrt(repeats), negligible=0, tolerance=tolerance)
            is not None
        ):
            return repeats
    return None


def spread_of_difference(values: Sequence[float], base_values: Sequence[float]) -> float:
    """The standard deviation of the difference of two single runs. Both have two values or more."""
    return sqrt(variance(values) + variance(base_values))


@cache
def student_t(degrees: int) -> float:
    """The 0.975 quantile of Student's distribution: 95 % of it lie within ± t."""
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
