"""Which trials of a search end early. Pure; called by `judging`.

Asynchronous successive halving (Li et al. 2018, arXiv:1810.05934), in its stopping form: a trial goes on while it is
among the best of those that reached the same rung. Optuna's pruner has the same rule, but keeps its rungs in Optuna's
storage, which Hora does not use.
"""

from collections.abc import Sequence
from math import ceil, isfinite
from statistics import median

from jobs.insight.studies.figures import Series
from jobs.views.searches import PruneSpec

_FIRST_OF = 4  # the first rung is at a quarter of the epochs: `python -m bench search` loses good trials at a ninth
_FEWEST_COMPLETE = 5  # before the median says anything


class Pruner:
    """Decides for the trials of one search. `epochs` are those of its base; None: a script does not say."""

    def __init__(self, prune: PruneSpec, *, epochs: int | None, is_lower_better: bool) -> None:
        self._prune = prune
        self._is_lower_better = is_lower_better
        self._first = prune.min_epochs or max(1, (epochs or 1) // _FIRST_OF)

    def rung_of(
        self, curve: Series, others: Sequence[Series], *, epochs: int | None, checkpoint_every: int = 1
    ) -> int | None:
        """The last epoch at which the trial can be judged; None: it is too early, or nobody else came so far.

        It is not the last one of the trial, which has nothing left to save. A checkpoint exists there: it was saved at
        the end of that epoch.
        """
        last = max(curve, default=0)
        until = min(last, max((max(other, default=0) for other in others), default=0), (epochs or last + 1) - 1)
        return self.last_rung(until, checkpoint_every)

    def last_rung(self, epoch: int, checkpoint_every: int = 1) -> int | None:
        """The last rung that a trial has reached after this epoch; None: it is too early."""
        return max((rung for rung in self._rungs(epoch, checkpoint_every) if rung <= epoch), default=None)

    def ends(self, curve: Series, others: Sequence[Series], complete: Sequence[Series], *, rung: int) -> bool:
        """Whether the trial ends at this rung. `others` are all other trials, `complete` those that were not pruned.

        One that completed before this rung counts with its best value: a trial is not better because it trains longer.
        """
        own = self._value(curve, rung)
        if self._prune.name == "median":
            rivals = [value for value in self._values(complete, rung) if isfinite(value)]
            return len(rivals) >= _FEWEST_COMPLETE and own < median(rivals)
        ended_before = [self._value(other, rung) for other in complete if 0 < max(other, default=0) < rung]
        competing = sorted([own, *self._values(others, rung), *ended_before], reverse=True)
        return own < competing[max(1, len(competing) // self._prune.reduction) - 1]

    def _rungs(self, last: int, every: int) -> Sequence[int]:
        if self._prune.name == "median":
            return range(ceil(self._first / every) * every, last + 1, every)
        rungs, rung = [], self._first
        while rung <= last:
            rungs.append(ceil(rung / every) * every)
            rung *= self._prune.reduction
        return rungs

    def _values(self, curves: Sequence[Series], rung: int) -> list[float]:
        return [self._value(curve, rung) for curve in curves if max(curve, default=0) >= rung]

    def _value(self, curve: Series, rung: int) -> float:
        """The best value up to the rung, turned so that more is better. What diverged is worse than all."""
        values = [value for epoch, value in curve.items() if epoch <= rung and isfinite(value)]
        return max((-value if self._is_lower_better else value for value in values), default=float("-inf"))


def best_of_curve(curve: Series, *, is_lower_better: bool, until: int | None = None) -> float | None:
    """The best value of the curve, up to an epoch; None without a number."""
    values = [value for epoch, value in curve.items() if isfinite(value) and (until is None or epoch <= until)]
    return (min if is_lower_better else max)(values, default=None)
