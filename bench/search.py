"""Measures what a search saves: 24 trials that end early, beside the same number of whole trials drawn by chance.

A small network of scikit-learn learns UCI's digits in this process, so a trial costs its epochs and no start. Choices
and decisions are those of the service (`jobs.insight.studies`), with two trials at once on a clock of CPU time. A
random search with `prune: asha` draws the same values as the one without, so a best trial that is lost shows.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs.insight.studies.adviser import Search, Told
from jobs.insight.studies.pruning import Pruner, best_of_curve
from jobs.insight.studies.space import space_of
from jobs.views.searches import SearchSpec

TRIALS, EPOCHS, PARALLEL = 24, 27, 2
SPACE = {
    "learning_rate": {"log": [1e-5, 0.3]},
    "alpha": {"log": [1e-6, 1]},
    "batch_size": [32, 64, 128, 256],
}
SIDES: Mapping[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "random, asha": {"method": "random", "prune": "asha"},
    "tpe, asha": {"method": "tpe", "prune": "asha"},
}


class Network:
    """The training of one choice of values with one seed: CPU seconds and validation accuracy of each epoch."""

    def __init__(self, values: Mapping[str, Any], seed: int) -> None:
        from sklearn.neural_network import MLPClassifier

        self._data = _digits(seed)
        self._network = MLPClassifier(
            (64, 64),
            learning_rate_init=values["learning_rate"],
            alpha=values["alpha"],
            batch_size=values["batch_size"],
            random_state=seed,
        )
        self._epochs: list[tuple[float, float]] = []

    def epoch(self, number: int) -> tuple[float, float]:
        """Train up to this epoch, from 1, if that was not done."""
        pixels, digits, held_pixels, held_digits = self._data
        while len(self._epochs) < number:
            began_s = time.process_time()
            self._network.partial_fit(pixels, digits, classes=range(10))
            accuracy = float(self._network.score(held_pixels, held_digits))
            self._epochs.append((time.process_time() - began_s, accuracy))
        return self._epochs[number - 1]


def _digits(seed: int) -> tuple[Any, Any, Any, Any]:
    import numpy as np
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(digits))
    pixels, digits = pixels[order] / 16, digits[order]
    return pixels[:1300], digits[:1300], pixels[1300:], digits[1300:]


@dataclass
class Trial:
    """A trial that trains, or has ended."""

    values: dict[str, Any]
    network: Network
    at_s: float  # on the clock of the search
    curve: dict[int, float] = field(default_factory=dict)
    spent_s: float = 0.0
    pruned_at: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it trains no more."""
        return self.pruned_at is not None or len(self.curve) == EPOCHS

    def train_epoch(self) -> None:
        """Train the next epoch."""
        took_s, accuracy = self.network.epoch(len(self.curve) + 1)
        self.curve[len(self.curve) + 1] = accuracy
        self.at_s += took_s
        self.spent_s += took_s

    def told(self) -> Told:
        """As the adviser is told of it."""
        best = best_of_curve(self.curve, is_lower_better=False, until=self.pruned_at)
        if not self.has_ended:
            return Told(self.values, "running")
        return Told(self.values, "complete" if self.pruned_at is None else "pruned", best, self.pruned_at)


def main(*, rounds: int) -> None:
    """Search with so many seeds, at most 3, and print the table."""
    console = Console()
    columns = [*(f"{side}: best, s" for side in SIDES), *(f"{side} / random" for side in list(SIDES)[1:])]
    table = Table("seed", *columns, title=f"{TRIALS} trials of {EPOCHS} epochs, {PARALLEL} at once: CPU seconds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of networks that have not converged
        for seed in range(1, min(rounds, 3) + 1):
            networks: dict[str, Network] = {}
            results = [_searched(SIDES[side], seed, networks) for side in SIDES]
            console.print(f"search: seed {seed} of {min(rounds, 3)}", style="dim")
            texts = [f"{best:.4f}, {spent_s:.1f}" for best, spent_s in results]
            ratios = [f"{spent_s / results[0][1]:.2f}" for _, spent_s in results[1:]]
            table.add_row(str(seed), *texts, *ratios)
    console.print(table)


def _searched(side: Mapping[str, Any], seed: int, networks: dict[str, Network]) -> tuple[float, float]:
    """The best accuracy and the CPU seconds of a search. It trains no network that an earlier one trained."""
    spec = SearchSpec.model_validate({"space": SPACE, "trials": TRIALS, "parallel": PARALLEL, **side})
    search = Search(spec, space_of(spec), seed=seed, is_lower_better=False)
    trials: list[Trial] = []
    _train_all(search, trials, seed, networks)
    return max(max(trial.curve.values()) for trial in trials), sum(trial.spent_s for trial in trials)


def _train_all(search: Search, trials: list[Trial], seed: int, networks: dict[str, Network]) -> None:
    """Begin trials, train the one that is behind, and end it if others are better, until all have ended."""
    prune = search.spec.prune
    pruner = None if prune is None else Pruner(prune, epochs=EPOCHS, is_lower_better=False)
    now_s = 0.0
    while True:
        live = [trial for trial in trials if not trial.has_ended]
        while len(live) < PARALLEL and len(trials) < TRIALS:
            values = next(search.choices([trial.told() for trial in trials]))
            network = networks.setdefault(repr(values), Network(values, seed))
            trials.append(Trial(values, network, now_s))
            live.append(trials[-1])
        if not live:
            return
        trial = min(live, key=lambda one: one.at_s)
        trial.train_epoch()
        now_s = trial.at_s
        if pruner is not None:
            _judge(pruner, trial, trials)


def _judge(pruner: Pruner, trial: Trial, trials: list[Trial]) -> None:
    others = [other.curve for other in trials if other is not trial]
    complete = [other.curve for other in trials if len(other.curve) == EPOCHS]
    rung = pruner.rung_of(trial.curve, others, epochs=EPOCHS)
    if rung is not None and pruner.ends(trial.curve, others, complete, rung=rung):
        trial.pruned_at = rung
