"""How validation went: the best epoch, and whether the network overfits. Pure; called by `analyse` and `reading`."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import fmean, median
from typing import Any

from jobs.insight.analysis.evidence import EpochFigures
from jobs.model.goals import best_by, is_better_lower
from jobs.model.spec import GoalSpec
from jobs.model.tasks import Task, epoch_metrics, task_of
from jobs.views.analysis import Learning

_LOSSES = ("loss", "val_loss")
_LAST = 3  # epochs that represent the end of the training
_LEAST_AFTER = 5  # epochs after the best validation: early stopping waits for about as many
_LEAST_RISE = 0.2  # of the validation loss over its least, or of another metric from its best
_OVER_NOISE = 3  # times what it changes from one epoch to the next
_FAST_FALL = 0.95  # of the loss of the epoch before
_FAR_ABOVE = 2.0  # times the loss of a guess: no network begins there
_LEAST_WAY = 0.1  # of a weight: updates x rate, about the most that Adam changes it; it begins at about 0.1
_LEAST_GAIN = 0.1  # of the training loss meanwhile, or of another metric


@dataclass(frozen=True)
class Monitored:
    """The metric by which the best epoch is chosen, and the least improvement that counts."""

    metric: str
    is_lower_better: bool
    min_delta: float = 0.0

    @property
    def in_training(self) -> str | None:
        """The same metric on the training data; None if this is no metric of the validation."""
        return self.metric.removeprefix("val_") if self.metric.startswith("val_") else None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The metrics that can show overfitting, on the training data and in the validation. The first known counts."""
        return [_LOSSES] if self.in_training is None else [_LOSSES, (self.in_training, self.metric)]


def monitored(
    spec: Mapping[str, Any], names: Collection[str] = (), dataset: Mapping[str, Any] | None = None
) -> Monitored | None:
    """What decides which epoch is best, for a stored spec: early stopping, else the goal.

    A script without both is judged by the `names` of its metrics. None if it has reported none. Hora's own loop is
    judged by the task, which the opened `dataset` knows where the spec says `auto`.
    """
    stopping, goal = spec.get("early_stopping"), spec.get("goal")
    spec_goal = None if goal is None else GoalSpec.model_validate(goal)
    is_script = spec.get("code") is not None
    measured = names if is_script else epoch_metrics(task_of(spec.get("task", "auto"), dataset))
    metric = best_by(spec_goal, stopping["monitor"] if stopping else None, measured, is_script=is_script)
    if metric is None:
        return None
    is_lower_better = is_better_lower(metric, spec_goal)
    return Monitored(metric, is_lower_better, stopping["min_delta"] if stopping else 0.0)


def learning_of(
    epochs: Sequence[EpochFigures], goal: Monitored | None, summary: Mapping[str, Any] | None
) -> Learning | None:
    """How validation went; None before the first one. The epochs are in sequence.

    The `summary` names the best epoch by the same metric.
    """
    if goal is None:
        return None
    values = [(figures.epoch, figures.values[goal.metric]) for figures in epochs if goal.metric in figures.values]
    if not values:
        return None
    best_epoch = best_epoch_of(epochs, goal)
    if summary is not None and summary["best_epoch"] in dict(values):
        best_epoch = summary["best_epoch"]  # it knows of epochs whose points are missing
    pair, curves = _pair_of(epochs, goal)
    is_higher_better = pair != _LOSSES and not goal.is_lower_better
    losses = [(-train, -validation) for train, validation in curves] if is_higher_better else curves
    last = epochs[-1]
    is_overfit = last.epoch > best_epoch and overfits(losses)
    return Learning(
        metric=goal.metric,
        best_epoch=best_epoch,
        epochs_run=last.epoch,
        best=dict(values)[best_epoch],
        last=values[-1][1],
        train_last=None if goal.in_training is None else last.values.get(goal.in_training),
        val_loss_rise=_rise(losses) if pair == _LOSSES else None,
        overfits=is_overfit,
        overfits_by=pair[1] if is_overfit else None,
        worsening=_rise(losses) if is_overfit else None,
    )


def _pair_of(epochs: Sequence[EpochFigures], goal: Monitored) -> tuple[tuple[str, str], list[tuple[float, float]]]:
    """The metrics that may show overfitting, and (training, validation) of each epoch that has both."""
    for train, validation in goal.pairs:
        curves = [
            (figures.values[train], figures.values[validation])
            for figures in epochs
            if {train, validation} <= figures.values.keys()
        ]
        if curves:
            return (train, validation), curves
    return _LOSSES, []


def best_epoch_of(epochs: Sequence[EpochFigures], goal: Monitored) -> int:
    """The best epoch so far, by the rule of `trainer.callbacks.EarlyStopping`; 0 if no epoch has the metric."""
    best, best_epoch = math.nan, 0
    for figures in epochs:
        value = figures.values.get(goal.metric, math.nan)
        if math.isnan(value):
            continue
        gain = best - value if goal.is_lower_better else value - best
        if math.isnan(best) or gain > goal.min_delta:
            best, best_epoch = value, figures.epoch
    return best_epoch


def overfits(losses: Sequence[tuple[float, float]]) -> bool:
    """Whether the validation loss rose well above its least, and its noise, while the training loss still fell.

    `losses` are (training, validation) of each epoch: of a metric that is better when higher, its negative values. A
    plateau is not overfitting.
    """
    validation = [value for _, value in losses]
    least = min(range(len(losses)), key=validation.__getitem__, default=0)
    after = losses[least + 1 :]
    if len(after) < _LEAST_AFTER:
        return False
    train_end, end = (fmean(values) for values in zip(*after[-_LAST:], strict=True))
    train_then, then = losses[least]
    noise = median(abs(b - a) for a, b in pairwise(validation[least:]))
    half = len(after) // 2
    goes_on = fmean(value for _, value in after[half:]) > fmean(value for _, value in after[:half])
    rises = end - then > max(_LEAST_RISE * abs(then), _OVER_NOISE * noise)
    return goes_on and rises and train_then - train_end > _LEAST_GAIN * abs(train_then)


def loss_of_guess(spec: Mapping[str, Any], classes: int | None, task: Task = "classification") -> float | None:
    """The training loss of a constant guess, whatever the labels are.

    That gives all classes the same chance: ln(classes); or each of several labels an even one: ln(2). In a regression
    it is the mean of the targets: 1.

    None if something else is a part of the loss: weights of single classes, or what an external network adds to it.
    """
    if classes is None or spec.get("code") or isinstance(spec.get("class_weights"), dict):
        return None
    if ":" in spec["model"]["name"]:
        return None
    return {"classification": math.log(max(classes, 1)), "multilabel": math.log(2), "regression": 1.0}[task]


def losses_above(epochs: Sequence[EpochFigures], guess: float, *, rate: float, steps: int, ended: bool) -> list[float]:
    """The training losses of the last epochs, if at least three are above that of a guess, and will not soon be below.

    A loss that falls fast may get there, unless the job has `ended` and its loss was once far above. A rate that is too
    low leaves the loss there too. So the updates of these epochs, `steps` in each with this `rate`, must have been able
    to change weights.
    """
    losses = [figures.values["loss"] for figures in epochs if "loss" in figures.values]
    above = list(takewhile(lambda loss: loss > guess, reversed(losses)))[::-1]
    if len(above) < _LAST:
        return []
    if above[-1] < _FAST_FALL * above[-2] and not (ended and max(losses) > _FAR_ABOVE * guess):
        return []
    return above if rate * steps * len(above) >= _LEAST_WAY else []


def _rise(losses: Sequence[tuple[float, float]]) -> float | None:
    least = min((value for _, value in losses), default=0.0)
    return (losses[-1][1] - least) / abs(least) if least else None
