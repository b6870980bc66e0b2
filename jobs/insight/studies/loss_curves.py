"""Compares the loss curves of cells with those of the same cells at the baseline's GPU count. Pure; called by `report`.

Two curves may end at the same loss and still differ on the way. So whole curves are compared, epoch by epoch.

The difference of two cells is the mean absolute difference of their mean curves, over the epochs that all their
repeats have. Where nothing but chance differs, it is at most t x the mean standard error of that difference in 95 % of
cases: just so often if the repeats of a cell keep their distance from its mean over all epochs, and more often if they
change places. With one epoch this is Welch's test. t and its degrees of freedom are Welch's (1947), from variances
averaged over the epochs.

See docs/decisions/0046-what-a-report-says-of-repeats.md.
"""

import re
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from jobs.insight.studies.figures import Run, Series, other_values
from jobs.insight.studies.statistics import is_usable, repeats_to_tell, student_t, verdict, welch_degrees
from jobs.views.studies import Baseline, CellReport, CurveAgreement

_USUAL = ("loss", "val_loss")
_IS_LOSS = re.compile(r"(^|[_./:@-])loss$", re.IGNORECASE)
_MOST = 4  # curves of a cell
_LEAST = 1e-150  # of the baseline's loss: of less nothing is a share
_NEGLIGIBLE = 0.01  # of the baseline's loss: anything less is no difference
_TOLERANCE = 0.1  # of the baseline's loss: curves that are no further apart agree


def loss_names(names: Collection[str]) -> list[str]:
    """The metrics whose curves are compared: `loss`, `val_loss`, and others whose last word is loss. At most four."""
    others = sorted(name for name in names if _IS_LOSS.search(name) and name not in _USUAL)
    return [*_USUAL, *others][:_MOST]


def with_loss_agreement(
    cells: Sequence[CellReport], runs: Sequence[Sequence[Run]], baseline: Baseline | None
) -> list[CellReport]:
    """The cells with the agreement of their loss curves. `runs` are those of each cell."""
    if baseline is None:
        return list(cells)
    bases = {other_values(cell): at for at, cell in enumerate(cells) if cell.gpus == baseline.gpus}
    compared = []
    for at, cell in enumerate(cells):
        base = bases.get(other_values(cell))
        agreement = {} if base is None or base == at else _agreements(runs[at], runs[base])
        compared.append(cell.model_copy(update={"loss_agreement": agreement}))
    return compared


def _agreements(runs: Sequence[Run], base_runs: Sequence[Run]) -> dict[str, CurveAgreement]:
    reported = {name for run in runs for name in run.series}
    names = [name for name in loss_names(reported) if name in reported]
    found = {name: agreement_of(_curves(runs, name), _curves(base_runs, name)) for name in names}
    return {name: agreement for name, agreement in found.items() if agreement is not None}


def _curves(runs: Sequence[Run], name: str) -> list[Series]:
    return [run.series[name] for run in runs if run.is_good and run.series.get(name)]


def agreement_of(curves: Sequence[Series], base_curves: Sequence[Series]) -> CurveAgreement | None:
    """Whether the curves of a cell's repeats agree with those of the baseline. None if no epoch can be compared."""
    if not curves or not base_curves:
        return None
    epochs = sorted(set.intersection(*(set(curve) for curve in (*curves, *base_curves))))
    if not epochs:
        return None
    diverged, base_diverged = (any(map(_has_diverged, group)) for group in (curves, base_curves))
    if diverged or base_diverged:
        agrees = None if diverged and base_diverged else False
        return CurveAgreement(epochs=len(epochs), difference=None, relative=None, chance=None, agrees=agrees)
    here, there = (np.array([[curve[epoch] for epoch in epochs] for curve in group]) for group in (curves, base_curves))
    difference = float(np.abs(here.mean(0) - there.mean(0)).mean())
    level = float(np.abs(there.mean(0)).mean())
    chance, tolerance = _chance(here, there), _TOLERANCE * level
    agrees = needed = None
    if chance is not None:
        agrees = verdict(difference, chance, negligible=_NEGLIGIBLE * level, tolerance=tolerance)
        if agrees is None:
            spread = float(np.sqrt(here.var(0, ddof=1) + there.var(0, ddof=1)).mean())
            repeats = max(len(here), len(there))
            needed = repeats_to_tell(difference, spread, tolerance=tolerance, more_than=repeats)
    return CurveAgreement(
        epochs=len(epochs),
        difference=difference,
        relative=difference / level if level > _LEAST else None,
        chance=chance,
        agrees=agrees,
        repeats_needed=needed,
    )


def _has_diverged(curve: Series) -> bool:
    return not all(map(is_usable, curve.values()))


def _chance(here: npt.NDArray[np.float64], there: npt.NDArray[np.float64]) -> float | None:
    """The difference that chance alone exceeds in 5 % of cases at most. None if either cell has a single repeat.

    The values of both cells have the shape (repeats, epochs).
    """
    if min(len(here), len(there)) < 2:
        return None
    squares = [values.var(0, ddof=1) / len(values) for values in (here, there)]  # of the means' standard errors
    averages = [float(square.mean()) for square in squares]
    if sum(averages) == 0:
        return 0.0
    return student_t(welch_degrees(averages, (len(here), len(there)))) * float(np.sqrt(sum(squares)).mean())
