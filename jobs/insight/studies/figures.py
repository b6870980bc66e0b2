"""The figures of a study's cells, and how cells compare over GPU counts. Pure; called by `report`.

Every figure of a cell follows from the repeats that succeeded, and from what the API answers about their jobs. So a
person can check it by hand.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.insight.studies.statistics import difference, interval, repeats_to_tell, spread_of_difference, verdict
from jobs.model.states import TERMINAL, EndReason, Status
from jobs.views.studies import Agreement, Baseline, CellReport, DeviceKind, Failure, Goal, Interval, Speeds, Target

_NEGLIGIBLE = 0.01  # one point of an accuracy, and one percent of another metric: anything less is no difference
_TOLERANCE = {True: 0.02, False: 0.05}  # of an accuracy: points; of another metric: a share. Closer values agree
_MOST_METRICS = 100  # of a cell
_OF_KEPT_WEIGHTS = ("val_accuracy", "val_loss")  # where Hora's own loop trained, their values are in the summary
_LESS_IS_BETTER = ("wall_s", "time_to_target_s", "gpu_hours", "gpu_hours_to_target", "cost")
_MORE_IS_BETTER = ("samples_per_s", "val_accuracy")

Series = Mapping[int, float]  # the values of a metric by epoch, ascending; a value may be no number


@dataclass(frozen=True)
class Epoch:
    """The goal's value after one epoch, and how long its steps and its validation took."""

    value: float | None
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
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # as in the job's row
    cost: float | None = None  # of the leased time; None: a slot has no price
    series: Mapping[str, Series] = field(default_factory=dict)  # of the goal and of losses, by name
    end_reason: EndReason | None = None
    error: str | None = None
    device: DeviceKind | None = None  # of its slots; None before the first attempt
    is_beside_others: bool = False  # other jobs of the study ran on its host meanwhile
    allreduce_share: float | None = None  # of the time of its steps

    @property
    def is_good(self) -> bool:
        """Whether its figures count."""
        return self.status is Status.SUCCEEDED

    def best(self, goal: Goal) -> float | None:
        """The goal's best value of any epoch."""
        values = [epoch.value for epoch in self.epochs if epoch.value is not None]
        return (min if goal.is_lower_better else max)(values, default=None)

    def seconds_to(self, target: float, goal: Goal) -> float | None:
        """The time of the epochs up to the first whose value is as good as the target; None where none is."""
        taken_s = 0.0
        for epoch in self.epochs:
            taken_s += epoch.epoch_s
            if epoch.value is not None and (epoch.value <= target if goal.is_lower_better else epoch.value >= target):
                return taken_s
        return None

    def figure(self, metric: str) -> float | None:
        """A metric's value as a result: that of the kept weights if it is known, else the best one."""
        if metric in _OF_KEPT_WEIGHTS and self.summary.get(metric) is not None:
            return float(self.summary[metric])
        best = self.metrics.get(metric, {}).get("best")
        return None if best is None else float(best)

    @property
    def epoch_s(self) -> float | None:
        """The training time of each epoch, validation and checkpoints included."""
        wall_s, epochs = self.summary.get("wall_s"), self.summary.get("epochs_run")
        return wall_s / epochs if wall_s is not None and epochs else None

    @property
    def metric_names(self) -> set[str]:
        """The metrics that have a value as a result."""
        names = {*self.metrics, *(name for name in _OF_KEPT_WEIGHTS if self.summary.get(name) is not None)}
        return {name for name in names if self.figure(name) is not None}


def cell_report(
    values: Mapping[str, Any],
    runs: Sequence[Run],
    goal: Goal | None,
    target: Target | None,
    *,
    outliers: Collection[str] = (),
    keep_outliers: bool = False,
) -> CellReport:
    """The figures of one cell by itself. `runs` are by repeat; `outliers` are ids of jobs that stalled."""
    good = [run for run in runs if run.is_good]
    steady = [run for run in good if run.job_id not in outliers]
    has_outliers = len(steady) < len(good)
    times = [None if target is None or goal is None else run.seconds_to(target.value, goal) for run in good]
    reached_target = sum(time is not None for time in times)
    is_timed = reached_target == len(good)
    with_outliers = _speeds(good, target if is_timed else None, goal)
    without_outliers = _speeds(steady, target if is_timed else None, goal) if has_outliers else with_outliers
    speeds = with_outliers if keep_outliers else without_outliers
    hosts = [run.hosts for run in runs if run.hosts is not None]
    return CellReport(
        values=dict(values),
        gpus=runs[0].gpus,
        hosts=max(hosts, default=None),
        jobs=[run.job_id for run in runs],
        repeats=len(good),
        failed=sum(run.status in (Status.FAILED, Status.CANCELLED) for run in runs),
        failures=_failures(runs),
        unfinished=sum(run.status not in TERMINAL for run in runs),
        device=devices.pop() if len(devices := {run.device for run in runs if run.device}) == 1 else None,
        beside_others=sum(run.is_beside_others for run in good),
        wall_s=speeds.wall_s,
        setup_s=_interval(good, "setup_s"),
        samples_per_s=speeds.samples_per_s,
        val_accuracy=_interval(good, "val_accuracy"),
        metrics=_metrics(good, goal),
        epochs_run=_interval(good, "epochs_run"),
        epoch_s=speeds.epoch_s,
        allreduce_share=interval([run.allreduce_share for run in good if run.allreduce_share is not None]),
        time_to_target_s=speeds.time_to_target_s,
        gpu_hours_to_target=speeds.gpu_hours_to_target,
        reached_target=reached_target,
        gpu_hours=speeds.gpu_hours,
        cost=speeds.cost,
        speedup=None,
        throughput_speedup=None,
        efficiency=None,
        accuracy_agreement=None,
        with_outliers=with_outliers if has_outliers else None,
        without_outliers=without_outliers if has_outliers else None,
    )


def _failures(runs: Sequence[Run]) -> list[Failure]:
    """Why its jobs ended without success, the most frequent reason first. Of each reason the first error is shown."""
    lost = [run for run in runs if run.status in (Status.FAILED, Status.CANCELLED) and run.end_reason is not None]
    found = []
    for reason, jobs in Counter(run.end_reason for run in lost if run.end_reason).most_common():
        errors = [run.error.strip() for run in lost if run.end_reason is reason and run.error and run.error.strip()]
        found.append(Failure(end_reason=reason, jobs=jobs, error=errors[0].splitlines()[0] if errors else None))
    return found


def _speeds(runs: Sequence[Run], target: Target | None, goal: Goal | None) -> Speeds:
    """The figures of speed of these runs. With a target, all of them reached it."""
    to_target_s = []
    if target is not None and goal is not None:
        to_target_s = [time for run in runs if (time := run.seconds_to(target.value, goal)) is not None]
    return Speeds(
        wall_s=_interval(runs, "wall_s"),
        samples_per_s=_interval(runs, "train_samples_per_s"),
        epoch_s=interval([run.epoch_s for run in runs if run.epoch_s is not None]),
        time_to_target_s=interval(to_target_s),
        gpu_hours_to_target=interval([runs[0].gpus * time / 3600 for time in to_target_s]),
        gpu_hours=interval([run.leased_slot_s / 3600 for run in runs]),
        cost=interval(costs) if len(costs := [run.cost for run in runs if run.cost is not None]) == len(runs) else None,
    )


def _interval(runs: Sequence[Run], name: str) -> Interval | None:
    return interval([float(run.summary[name]) for run in runs if run.summary.get(name) is not None])


def _metrics(runs: Sequence[Run], goal: Goal | None) -> dict[str, Interval]:
    """The intervals of the metrics, the goal first, then by name."""
    first = None if goal is None else goal.metric
    names = sorted(set().union(*(run.metric_names for run in runs)), key=lambda name: (name != first, name))
    metrics = {}
    for name in names[:_MOST_METRICS]:
        values = [value for run in runs if (value := run.figure(name)) is not None]
        if (found := interval(values)) is not None:
            metrics[name] = found
    return metrics


def of_goal(cell: CellReport, goal: Goal | None) -> Interval | None:
    """The goal's metric of a cell."""
    return None if goal is None else cell.metrics.get(goal.metric)


def baseline_of(cells: Sequence[CellReport], varied: Sequence[str]) -> Baseline | None:
    """The least GPU count with a result, or with a job that may bring one; None if the grid does not vary it."""
    if "gpus" not in varied:
        return None
    counts = [cell.gpus for cell in cells if cell.repeats or cell.unfinished]
    return Baseline(gpus=min(counts)) if counts else None


def compared_with(cells: Sequence[CellReport], baseline: Baseline | None, goal: Goal | None) -> list[CellReport]:
    """The cells with their speed-up, efficiency and agreement against the same cell at the baseline's GPU count."""
    if baseline is None:
        return list(cells)
    bases = {other_values(cell): cell for cell in cells if cell.gpus == baseline.gpus}
    return [_against(cell, bases.get(other_values(cell)), goal) for cell in cells]


def other_values(cell: CellReport, *without: str) -> str:
    """The values of a cell but for its GPU count and the fields `without`, as a key to find comparable cells."""
    values = {field: value for field, value in cell.values.items() if field not in ("gpus", *without)}
    return json.dumps(values, sort_keys=True)


def _against(cell: CellReport, base: CellReport | None, goal: Goal | None) -> CellReport:
    if base is None:
        return cell
    speedup = ratio(base.wall_s, cell.wall_s)
    return cell.model_copy(
        update={
            "speedup": speedup,
            "throughput_speedup": ratio(cell.samples_per_s, base.samples_per_s),
            "efficiency": None if speedup is None else speedup * base.gpus / cell.gpus,
            "accuracy_agreement": None if cell is base else _agreement(cell, base, goal),
        }
    )


def ratio(above: Interval | None, below: Interval | None) -> float | None:
    """The ratio of two means; None if one is unknown, or the lower one is not above 0."""
    return above.mean / below.mean if above is not None and below is not None and below.mean > 0 else None


def _agreement(cell: CellReport, base: CellReport, goal: Goal | None) -> Agreement | None:
    here, there = of_goal(cell, goal), of_goal(base, goal)
    if goal is None or here is None or there is None:
        return None
    unit = 1.0 if goal.is_accuracy else abs(there.mean)
    tolerance, away = _TOLERANCE[goal.is_accuracy] * unit, here.mean - there.mean
    ends = difference(here.values, there.values)
    if ends is None:
        return Agreement(difference=away, low=None, high=None, agrees=None)
    low, high = ends
    agrees = verdict(abs(away), (high - low) / 2, negligible=_NEGLIGIBLE * unit, tolerance=tolerance)
    needed = None
    if agrees is None:
        spread, repeats = spread_of_difference(here.values, there.values), max(len(here.values), len(there.values))
        needed = repeats_to_tell(abs(away), spread, tolerance=tolerance, more_than=repeats)
    return Agreement(difference=away, low=low, high=high, agrees=agrees, repeats_needed=needed)


def best_of(cells: Sequence[CellReport], goal: Goal | None) -> dict[str, int]:
    """For each figure that any cell has, and for the goal: the position of the best cell."""
    figures: dict[str, tuple[int, list[Interval | None]]] = {
        name: (sign, [getattr(cell, name) for cell in cells])
        for sign, names in ((1, _LESS_IS_BETTER), (-1, _MORE_IS_BETTER))
        for name in names
    }
    if goal is not None:
        figures["goal"] = (1 if goal.is_lower_better else -1, [of_goal(cell, goal) for cell in cells])
    best = {}
    for name, (sign, intervals) in figures.items():
        means = [(sign * figure.mean, at) for at, figure in enumerate(intervals) if figure is not None]
        if means:
            best[name] = min(means)[1]
    return best


def groups_over_gpus(cells: Sequence[CellReport]) -> list[list[CellReport]]:
    """Groups of cells that differ in their GPU count alone, each sorted by GPU count."""
    groups: dict[str, list[CellReport]] = defaultdict(list)
    for cell in cells:
        groups[other_values(cell)].append(cell)
    return [sorted(group, key=lambda cell: cell.gpus) for group in groups.values()]
