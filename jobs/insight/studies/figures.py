"""The figures of a study's cells, and how cells compare over GPU counts. Pure; called by `report`.

Every figure of a cell follows from the repeats that succeeded, and from what the API answers about their jobs. So a
person can check it by hand.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from jobs.insight.studies.statistics import difference, interval
from jobs.model.states import TERMINAL, Status
from jobs.views.studies import Agreement, Baseline, CellReport, Interval, Target

_SAME_ACCURACY = 0.01  # one point: anything less is no difference
_MOST_CELLS = 0.75  # the share of cells with results that reach a target chosen from them
_LESS_IS_BETTER = ("wall_s", "time_to_target_s", "gpu_hours", "gpu_hours_to_target")
_MORE_IS_BETTER = ("samples_per_s", "val_accuracy")


@dataclass(frozen=True)
class Epoch:
    """The accuracy after one epoch, and how long its steps and its validation took."""

    val_accuracy: float | None
    epoch_s: float


@dataclass(frozen=True)
class Run:
    """The newest job of one repeat of a cell."""

    job_id: str
    status: Status
    gpus: int
    hosts: int | None  # the most of any attempt; None before the first
    fewest_gpus: int | None  # of its attempts
    leased_slot_s: float  # slots x seconds, over its attempts
    summary: Mapping[str, Any]
    epochs: Sequence[Epoch]

    @property
    def is_good(self) -> bool:
        """Whether its figures count."""
        return self.status is Status.SUCCEEDED

    @property
    def best_accuracy(self) -> float | None:
        """The greatest val_accuracy of any epoch."""
        return max((epoch.val_accuracy for epoch in self.epochs if epoch.val_accuracy is not None), default=None)

    def seconds_to(self, target: float) -> float | None:
        """The time of the epochs up to the first whose val_accuracy is at least `target`; None where none is."""
        taken_s = 0.0
        for epoch in self.epochs:
            taken_s += epoch.epoch_s
            if epoch.val_accuracy is not None and epoch.val_accuracy >= target:
                return taken_s
        return None


def target_from(cells: Sequence[Sequence[Run]]) -> Target | None:
    """The default target: the highest whole percent that every repeat reached in three of four cells.

    Cells without a repeat that succeeded do not count. None if there are only such cells.
    """
    reached = []
    for runs in cells:
        levels = [run.best_accuracy for run in runs if run.is_good]
        measured = [level for level in levels if level is not None]
        if measured:
            reached.append(min(measured))
    if not reached:
        return None
    reached.sort(reverse=True)
    at_least = ceil(_MOST_CELLS * len(reached))
    percent = floor(100 * reached[at_least - 1] + 1e-9)
    return Target(value=percent / 100, chosen_by="results") if percent > 0 else None


def cell_report(values: Mapping[str, Any], runs: Sequence[Run], target: Target | None) -> CellReport:
    """The figures of one cell by itself. `runs` are by repeat."""
    good = [run for run in runs if run.is_good]
    gpus = runs[0].gpus
    times = [None if target is None else run.seconds_to(target.value) for run in good]
    reached = [time for time in times if time is not None]
    time_to_target = interval(reached) if len(reached) == len(good) else None
    hosts = [run.hosts for run in runs if run.hosts is not None]
    return CellReport(
        values=dict(values),
        gpus=gpus,
        hosts=max(hosts, default=None),
        jobs=[run.job_id for run in runs],
        repeats=len(good),
        failed=sum(run.status in (Status.FAILED, Status.CANCELLED) for run in runs),
        unfinished=sum(run.status not in TERMINAL for run in runs),
        wall_s=_interval(good, "wall_s"),
        setup_s=_interval(good, "setup_s"),
        samples_per_s=_interval(good, "train_samples_per_s"),
        val_accuracy=_interval(good, "val_accuracy"),
        epochs_run=_interval(good, "epochs_run"),
        time_to_target_s=time_to_target,
        gpu_hours_to_target=interval([gpus * time / 3600 for time in reached]) if time_to_target else None,
        reached_target=len(reached),
        gpu_hours=interval([run.leased_slot_s / 3600 for run in good]),
        speedup=None,
        throughput_speedup=None,
        efficiency=None,
        accuracy_agreement=None,
    )


def _interval(runs: Sequence[Run], name: str) -> Interval | None:
    return interval([float(run.summary[name]) for run in runs if run.summary.get(name) is not None])


def baseline_of(cells: Sequence[CellReport], varied: Sequence[str]) -> Baseline | None:
    """The least GPU count with a result, or with a job that may bring one; None if the grid does not vary it."""
    if "gpus" not in varied:
        return None
    counts = [cell.gpus for cell in cells if cell.repeats or cell.unfinished]
    return Baseline(gpus=min(counts)) if counts else None


def compared_with(cells: Sequence[CellReport], baseline: Baseline | None) -> list[CellReport]:
    """The cells with their speed-up, efficiency and agreement against the same cell at the baseline's GPU count."""
    if baseline is None:
        return list(cells)
    bases = {other_values(cell): cell for cell in cells if cell.gpus == baseline.gpus}
    return [_against(cell, bases.get(other_values(cell))) for cell in cells]


def other_values(cell: CellReport, *without: str) -> str:
    """The values of a cell but for its GPU count and the fields `without`, as a key to find comparable cells."""
    values = {field: value for field, value in cell.values.items() if field not in ("gpus", *without)}
    return json.dumps(values, sort_keys=True)


def _against(cell: CellReport, base: CellReport | None) -> CellReport:
    if base is None:
        return cell
    speedup = _ratio(base.wall_s, cell.wall_s)
    return cell.model_copy(
        update={
            "speedup": speedup,
            "throughput_speedup": _ratio(cell.samples_per_s, base.samples_per_s),
            "efficiency": None if speedup is None else speedup * base.gpus / cell.gpus,
            "accuracy_agreement": None if cell is base else _agreement(cell.val_accuracy, base.val_accuracy),
        }
    )


def _ratio(above: Interval | None, below: Interval | None) -> float | None:
    return above.mean / below.mean if above is not None and below is not None and below.mean > 0 else None


def _agreement(here: Interval | None, there: Interval | None) -> Agreement | None:
    if here is None or there is None:
        return None
    away = here.mean - there.mean
    low, high = difference(here.values, there.values) or (None, None)
    agrees = None if low is None or high is None else low <= 0 <= high or abs(away) < _SAME_ACCURACY
    return Agreement(difference=away, low=low, high=high, agrees=agrees)


def best_of(cells: Sequence[CellReport]) -> dict[str, int]:
    """For each figure that any cell has: the position of the best cell."""
    best = {}
    for sign, names in ((1, _LESS_IS_BETTER), (-1, _MORE_IS_BETTER)):
        for name in names:
            means = [(sign * figure.mean, at) for at, cell in enumerate(cells) if (figure := getattr(cell, name))]
            if means:
                best[name] = min(means)[1]
    return best


def groups_over_gpus(cells: Sequence[CellReport]) -> list[list[CellReport]]:
    """Groups of cells that differ in their GPU count alone, each sorted by GPU count."""
    groups: dict[str, list[CellReport]] = defaultdict(list)
    for cell in cells:
        groups[other_values(cell)].append(cell)
    return [sorted(group, key=lambda cell: cell.gpus) for group in groups.values()]
