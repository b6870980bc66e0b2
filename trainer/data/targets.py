"""The numbers that a regression learns: their checks, their means and deviations. For the readers of `trainer.data`."""

from typing import Any

import numpy as np

from trainer.data.interfaces import Labels, Normalization, Survey, Target
from trainer.data.moments import Moments
from trainer.errors import BadData

_LEAST_STEPS = 1000  # that float32 makes within a deviation


def as_targets(values: Any) -> tuple[Labels, int | None]:
    """Numbers (sample, target) as float32, and the first sample where one is not finite."""
    with np.errstate(over="ignore"):
        targets = values.astype(np.float32, copy=False)
    finite = np.isfinite(targets).all(axis=1)
    return targets, None if finite.all() else int(np.argmin(finite))


def scale_of(survey: Survey, *, name: str) -> Normalization:
    """The mean and deviation of each target over the whole collection. Raises `BadData`.

    The pieces are added in the sequence of their numbers, so the result is the same on any number of ranks.
    """
    if not survey.samples:
        raise BadData(f"{name}: there is no sample at all")
    moments, widths = Moments(), _widths(survey)
    if len(widths) > 1:
        raise BadData(
            f"{name}: samples have different counts of numbers to learn: {', '.join(map(str, sorted(widths)))}"
        )
    for number in sorted(survey.moments, key=int):
        moments.add_sums(survey.moments[number])
    rows, means, squares = moments.sums
    deviations = np.sqrt(np.array(squares) / rows).tolist()
    for target, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
        which = "the label" if len(means) == 1 else f"number {target} (from 0) of the labels"
        if not deviation:
            raise BadData(f"{name}: {which} is {mean:g} in every sample: there is nothing to learn")
        if deviation < _LEAST_STEPS * np.spacing(np.float32(abs(mean))):
            raise BadData(
                f"{name}: {which} is {mean:g} on average and differs by {deviation:g} only, which float32 can hardly "
                f"tell apart: subtract {mean:g}"
            )
    return Normalization(tuple(means), tuple(deviations))


def check_targets(survey: Survey, target: Target, *, name: str) -> None:
    """Raise `BadData` if a collection has no sample, or other counts of numbers to learn than the training data."""
    if not survey.samples:
        raise BadData(f"{name}: there is no sample at all")
    for width in _widths(survey):
        target.check_width(width, name=name)


def _widths(survey: Survey) -> set[int]:
    return {len(mean) for _, mean, _ in survey.moments.values()}
