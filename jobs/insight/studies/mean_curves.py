"""The learning curves of a study: for each cell the mean of its repeats, and how far they spread. Called by the api.

The spread is from the lowest to the highest repeat, and not a confidence interval: with two or three repeats that
would be far wider than all curves in it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sqlalchemy.orm import Session

from jobs.insight.studies.figures import Series
from jobs.insight.studies.report import goal_and_runs
from jobs.insight.studies.statistics import is_usable
from jobs.insight.studies.store import get_study
from jobs.views.studies import CellCurve, MetricCurves, StudyCurves

_MOST_POINTS = 20_000  # of all curves of a study
_MOST_OF_CURVE = 200
_FEWEST_OF_CURVE = 4
_DIGITS = 6


def curves_of(session: Session, study_id: str) -> StudyCurves:
    """The curves of the goal and of the losses. Raises `jobs.insight.studies.store.StudyNotFound`."""
    study = get_study(session, study_id)
    goal, runs = goal_and_runs(session, study)
    names = dict.fromkeys(name for cell in runs for run in cell if run.is_good for name in run.series)
    ranked = sorted(names, key=lambda name: goal is None or name != goal.metric)  # the goal first
    most = max(_FEWEST_OF_CURVE, min(_MOST_OF_CURVE, _MOST_POINTS // max(1, len(ranked) * len(runs))))
    curves = []
    for name in ranked:
        repeats = [[run.series[name] for run in cell if run.is_good and run.series.get(name)] for cell in runs]
        curves.append(MetricCurves(metric=name, cells=[mean_curve(each, most=most) for each in repeats]))
    return StudyCurves(study_id=study.id, curves=curves)


def mean_curve(repeats: Sequence[Series], *, most: int) -> CellCurve | None:
    """The mean and the spread of curves, over the epochs that all of them have. None if there are no such epochs.

    Neighbouring epochs are joined if there are more than `most`: their mean, and their lowest and highest value.
    """
    if not repeats:
        return None
    epochs = sorted(set.intersection(*map(set, repeats)))
    if not epochs:
        return None
    values = np.array([[curve[epoch] for epoch in epochs] for curve in repeats])
    is_known = np.array([all(is_usable(curve[epoch]) for curve in repeats) for epoch in epochs])
    points = [
        _point(np.array(epochs)[places], values[:, places[is_known[places]]])
        for places in np.array_split(np.arange(len(epochs)), min(most, len(epochs)))
    ]
    epoch, mean, low, high = (list(column) for column in zip(*points, strict=True))
    return CellCurve(repeats=len(repeats), epoch=epoch, mean=mean, low=low, high=high)


def _point(
    epochs: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> tuple[float, float | None, float | None, float | None]:
    """The middle of neighbouring epochs, and the mean, the lowest and the highest of their known values."""
    middle = float(epochs[len(epochs) // 2])
    if values.size == 0:
        return middle, None, None, None
    mean, low, high = (float(f"{value:.{_DIGITS}g}") for value in (values.mean(), values.min(), values.max()))
    return middle, mean, low, high
