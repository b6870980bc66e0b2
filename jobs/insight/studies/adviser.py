"""Chooses the values of the next trial of a search, and says which fields matter. Pure.

Used by `searching` and `search_report`.

Optuna advises and remembers nothing: for each choice its study is made again, in memory, from what Hora's rows say of
the trials. So there is no second store that could differ from the rows, and any worker can ask.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_json

from jobs.insight.studies.space import Choice, Dimension, Space, combination, combinations, first_untried
from jobs.views.searches import SearchSpec

if TYPE_CHECKING:
    import optuna

_DRAWS = 20  # of one choice: what was tried before, or makes no valid spec, is drawn again
_FEWEST_FOR_IMPORTANCES = 8


@dataclass(frozen=True)
class Told:
    """A trial, as Optuna is told of it."""

    values: Mapping[str, Any]
    state: Literal["complete", "pruned", "failed", "running"]
    objective: float | None = None  # None: it has not reported one
    at_rung: int | None = None  # the epoch of the objective of a pruned trial


@dataclass(frozen=True)
class Search:
    """What is looked for, and where."""

    spec: SearchSpec
    space: Space
    seed: int
    is_lower_better: bool

    def choices(self, told: Sequence[Told]) -> Iterator[dict[str, Any]]:
        """Values for the trial after these, the preferred ones first. The same trials give the same choices.

        There are several, because the spec of one may be invalid although the ends of each dimension are valid. None:
        every combination was tried.
        """
        if self.spec.method == "grid":
            if len(told) < (combinations(self.space) or 0):
                yield combination(self.space, len(told))
            return
        tried = [one.values for one in told]
        for draw in range(_DRAWS):
            values = self._ask(told, draw)
            if values not in tried:
                tried.append(values)
                yield values
        if combinations(self.space) is not None and (untried := first_untried(self.space, tried)) is not None:
            yield untried

    def _ask(self, told: Sequence[Told], draw: int) -> dict[str, Any]:
        import optuna

        seed = _seed(self.seed, len(told), draw)
        sampler: optuna.samplers.BaseSampler = (
            optuna.samplers.RandomSampler(seed=seed)
            if self.spec.method == "random"
            else optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        )
        study = self._study(told if self.spec.method == "tpe" else (), sampler)
        trial = study.ask(self._distributions())
        return {name: _value(dimension, trial.params[name]) for name, dimension in self.space.items()}

    def importances(self, told: Sequence[Told]) -> dict[str, float] | None:
        """The share of each field in what makes a trial good, the largest first. None where too little is known.

        PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255) over all trials with a value, also pruned ones.
        """
        known = [one for one in told if one.objective is not None and one.state != "running"]
        if len(known) < _FEWEST_FOR_IMPORTANCES or len({one.objective for one in known}) < _FEWEST_FOR_IMPORTANCES // 2:
            return None
        import warnings

        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        study = self._study([Told(one.values, "complete", one.objective) for one in known])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that equal values say nothing
            found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
        return {name: round(float(share), 4) for name, share in found.items()}

    def _study(self, told: Sequence[Told], sampler: "optuna.samplers.BaseSampler | None" = None) -> "optuna.Study":
        import optuna
        from optuna.trial import TrialState, create_trial

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(direction="minimize" if self.is_lower_better else "maximize", sampler=sampler)
        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "running": TrialState.RUNNING}
        study.add_trials(
            create_trial(
                state=states.get(one.state, TrialState.FAIL),
                params={name: _param(dimension, one.values[name]) for name, dimension in self.space.items()},
                distributions=self._distributions(),
                value=one.objective if one.state == "complete" else None,
                intermediate_values=_at_rung(one),
            )
            for one in told
        )
        return study

    def _distributions(self) -> "dict[str, optuna.distributions.BaseDistribution]":
        return {name: _distribution(dimension) for name, dimension in self.space.items()}


def _at_rung(told: Told) -> dict[int, float]:
    return {told.at_rung: told.objective} if told.at_rung is not None and told.objective is not None else {}


def _seed(seed: int, number: int, draw: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{number}/{draw}".encode()).digest()[:4], "big")


def _distribution(dimension: Dimension) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choice):
        return CategoricalDistribution(range(len(dimension.values)))  # Optuna takes no objects
    make = partial(IntDistribution if dimension.is_int else FloatDistribution, log=dimension.is_log)
    return make(dimension.low, dimension.high)  # type: ignore[arg-type]


def _param(dimension: Dimension, value: Any) -> Any:
    """A value of a trial as Optuna knows it."""
    if not isinstance(dimension, Choice):
        return value
    return [to_json(each) for each in dimension.values].index(to_json(value))


def _value(dimension: Dimension, param: Any) -> Any:
    return dimension.values[param] if isinstance(dimension, Choice) else dimension.rounded(param)
