"""How validation went: the best epoch, and whether the network overfits. Pure; called by `analyse`."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from jobs.insight.analysis.evidence import EpochFigures
from jobs.views.analysis import Learning

_DEFAULT_MONITOR = "val_accuracy"  # what "best epoch" means when early stopping is off
_LAST = 3  # epochs that represent the end of the training
_LEAST_AFTER = 5  # epochs after the least validation loss: early stopping waits for about as many
_LEAST_RISE = 0.2  # of the validation loss over its least
_OVER_NOISE = 3  # times what the validation loss changes from one epoch to the next
_LEAST_GAIN = 0.1  # of the training loss meanwhile


def learning_of(
    epochs: Sequence[EpochFigures], spec: Mapping[str, Any], summary: Mapping[str, Any] | None
) -> Learning | None:
    """How validation went; None before the first one. The epochs are in sequence."""
    monitor, _ = monitored(spec)
    values = [(figures.epoch, figures.values[monitor]) for figures in epochs if monitor in figures.values]
    if not values:
        return None
    best_epoch = best_epoch_of(epochs, spec)
    if summary is not None and summary["best_epoch"] in dict(values):
        best_epoch = summary["best_epoch"]  # it knows of epochs whose points are missing
    losses = [
        (figures.values["loss"], figures.values["val_loss"])
        for figures in epochs
        if {"loss", "val_loss"} <= figures.values.keys()
    ]
    last = epochs[-1]
    return Learning(
        metric=monitor,
        best_epoch=best_epoch,
        epochs_run=last.epoch,
        best=dict(values)[best_epoch],
        last=values[-1][1],
        train_last=last.values.get(monitor.removeprefix("val_")) if monitor.startswith("val_") else None,
        val_loss_rise=_rise(losses),
        overfits=last.epoch > best_epoch and overfits(losses),
    )


def monitored(spec: Mapping[str, Any]) -> tuple[str, float]:
    """The metric by which the best epoch is chosen, and the least improvement that counts."""
    stopping = spec.get("early_stopping")
    return (stopping["monitor"], stopping["min_delta"]) if stopping else (_DEFAULT_MONITOR, 0.0)


def best_epoch_of(epochs: Sequence[EpochFigures], spec: Mapping[str, Any]) -> int:
    """The best epoch so far, by the rule of `trainer.callbacks.EarlyStopping`; 0 if no epoch has the metric."""
    monitor, min_delta = monitored(spec)
    best, best_epoch = math.nan, 0
    for figures in epochs:
        value = figures.values.get(monitor, math.nan)
        if math.isnan(value):
            continue
        gain = best - value if _is_better_lower(monitor) else value - best
        if math.isnan(best) or gain > min_delta:
            best, best_epoch = value, figures.epoch
    return best_epoch


def overfits(losses: Sequence[tuple[float, float]]) -> bool:
    """Whether the validation loss rose well above its least, and its noise, while the training loss still fell.

    `losses` are (training, validation) of each epoch. A plateau is not overfitting.
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
    rises = end - then > max(_LEAST_RISE * then, _OVER_NOISE * noise)
    return goes_on and rises and train_end < (1 - _LEAST_GAIN) * train_then


def _rise(losses: Sequence[tuple[float, float]]) -> float | None:
    least = min((value for _, value in losses), default=0.0)
    return losses[-1][1] / least - 1 if least > 0 else None


def _is_better_lower(metric: str) -> bool:
    """Whether lower values are better: for losses and times, which the trainer also knows by their names."""
    return metric.endswith("loss") or (metric.endswith("_s") and not metric.endswith("_per_s"))
