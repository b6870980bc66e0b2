"""Finds repeats that stalled: far slower than the other repeats of their cell. Pure; called by `report`.

A repeat counts as stalled if two things are true of the time that an epoch took, or a sample where epochs are unknown:

- its modified z-score, 0.6745 (time - median) / MAD, is above 3.5 (Iglewicz and Hoaglin, 1993, How to Detect and Handle
  Outliers);
- it is above 1.5 x the median. With few repeats the MAD may be tiny by chance, and the score alone says little.

See docs/decisions/0046-what-a-report-says-of-repeats.md.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from jobs.insight.studies.figures import Run
from jobs.views.studies import Outlier

_FEWEST = 3  # of two repeats nobody knows which one is odd
_MOST_Z = 3.5
_TO_Z = 0.6745  # so that the score of a normal variable is in units of its standard deviation
_SLOWER = 1.5
RULE = f"more than {_SLOWER:g} x the median time, and a modified z-score above {_MOST_Z:g}"


def outliers_of(cells: Sequence[Sequence[Run]]) -> list[Outlier]:
    """The repeats that stalled, sorted by cell and repeat."""
    return [outlier for cell, runs in enumerate(cells) for outlier in _outliers_in(cell, runs)]


def _outliers_in(cell: int, runs: Sequence[Run]) -> Iterator[Outlier]:
    """Judged by one figure for the whole cell, so that most of its repeats are never outliers."""
    good = [run for run in runs if run.is_good]
    figure: Literal["epoch_s", "samples_per_s"] = "epoch_s"  # it shows stalls in validation too
    values = [_positive(run.epoch_s) for run in good]
    if sum(value is not None for value in values) < _FEWEST:
        figure = "samples_per_s"
        values = [_positive(run.summary.get("train_samples_per_s")) for run in good]
    measured = [(run, value) for run, value in zip(good, values, strict=True) if value is not None]
    if len(measured) < _FEWEST:
        return
    times = [value if figure == "epoch_s" else 1 / value for _, value in measured]
    middle = median(times)
    deviation = median(abs(time - middle) for time in times)
    for (run, value), time in zip(measured, times, strict=True):
        if time > _SLOWER * middle and _TO_Z * (time - middle) > _MOST_Z * deviation:
            typical = middle if figure == "epoch_s" else 1 / middle
            yield Outlier(job_id=run.job_id, cell=cell, figure=figure, value=value, median=typical, rule=RULE)


def _positive(value: float | None) -> float | None:
    """The value if it is a time or a speed; None for what is no number, not positive, or has no inverse."""
    return None if value is None or not 1e-300 < value < 1e300 else value
