"""The callbacks, one by one, on made-up epochs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.model.spec import EarlyStopping as EarlyStoppingSpec
from jobs.model.spec import GoalSpec, Spec, spec_from
from jobs.model.tasks import epoch_metrics
from tests.unit.trainer.made_up import ListRecorder, epoch
from trainer.callbacks import Checkpointing, EarlyStopping
from trainer.state import Progress, Stopping

NAN = float("nan")


def spec_with(early_stopping: EarlyStoppingSpec | None, goal: GoalSpec | None = None) -> Spec:
    return spec_from({"dataset": "digits"}).model_copy(update={"early_stopping": early_stopping, "goal": goal})


def stopping(rule: EarlyStoppingSpec | None, goal: GoalSpec | None = None, **series: list[float]) -> EarlyStopping:
    """Early stopping after epochs with these metrics; the weights of an epoch are its number."""
    now = [0]
    early_stopping = EarlyStopping(spec_with(rule, goal), Stopping(), None, lambda: [np.array(now[0])])
    (name, values) = next(iter(series.items()))
    for number, value in enumerate(values, start=1):
        now[0] = number
        is_time = name in ("epoch_s", "samples_per_s")
        early_stopping.on_epoch_end(epoch(number, {}, **{name: value}) if is_time else epoch(number, {name: value}))
    return early_stopping


@pytest.mark.parametrize(
    ("monitor", "values", "best_epoch", "stopped"),
    [
        ("val_accuracy", [0.5, 0.6, 0.6], 2, False),
        ("val_accuracy", [0.5, 0.6, 0.6, 0.6005], 2, True),  # a gain below min_delta does not count
        ("val_accuracy", [0.5, 0.4, 0.6, 0.5], 3, False),
        ("val_loss", [1.0, 0.5, 0.7, 0.6], 2, True),
        ("epoch_s", [3.0, 2.0, 4.0], 2, False),
        ("samples_per_s", [5.0, 9.0, 7.0], 2, False),
        ("val_loss", [1.0, NAN], 1, False),  # NaN is never better
        ("val_loss", [NAN, 1.0, NAN], 2, False),
        ("val_loss", [NAN, NAN, NAN], 1, True),
    ],
)
def test_training_stops_after_patience_epochs_without_a_gain(
    monitor: Any, values: list[float], best_epoch: int, stopped: bool
) -> None:
    state = stopping(EarlyStoppingSpec(monitor=monitor, patience=2), **{monitor: values}).state
    assert (state.best_epoch, state.stopped, state.wait) == (best_epoch, stopped, len(values) - best_epoch)


def test_epoch_has_every_metric_that_a_spec_may_monitor() -> None:
    metrics = {"loss": 1.0, "accuracy": 0.5, "val_loss": 1.0, "val_accuracy": 0.5}
    assert epoch(1, metrics).monitored.keys() == set(epoch_metrics("classification", 3))


def test_after_best_share_is_the_share_of_time_after_the_best_epoch() -> None:
    early_stopping = EarlyStopping(spec_with(EarlyStoppingSpec()), Stopping(), None, list)
    for number, (value, epoch_s) in enumerate([(0.5, 3.0), (0.9, 2.0), (0.8, 1.0), (0.7, 2.0)], start=1):
        early_stopping.on_epoch_end(epoch(number, {"val_accuracy": value}, epoch_s=epoch_s))
    assert early_stopping.state.after_best_share == 3 / 8
    early_stopping.on_epoch_end(epoch(5, {"val_accuracy": 0.95}))
    assert early_stopping.state.after_best_share == 0


@pytest.mark.parametrize(
    ("rule", "best_weights", "kept_epoch", "kept"),
    [
        (EarlyStoppingSpec(), 2, 2, 0.9),
        (EarlyStoppingSpec(restore_best_weights=False), None, 3, 0.7),
        (None, None, 3, 0.7),
    ],
)
def test_the_best_epoch_is_named_and_kept_if_it_is_to_be_restored(
    rule: EarlyStoppingSpec | None, best_weights: int | None, kept_epoch: int, kept: float
) -> None:
    after = stopping(rule, val_accuracy=[0.5, 0.9, 0.7])
    assert after.restores == (best_weights is not None)
    assert (None if after.best_weights is None else after.best_weights[0]) == best_weights
    assert (after.kept_epoch, after.kept_metrics) == (kept_epoch, {"val_accuracy": kept})
    assert after.state.best_epoch == 2


def test_without_early_stopping_the_goal_says_which_epoch_is_best_and_none_stops() -> None:
    assert not stopping(None, val_accuracy=[0.5] * 50).state.stopped
    losses = [1.0, 0.5, 0.7]
    assert stopping(None, GoalSpec(metric="val_loss"), val_loss=losses).state.best_epoch == 2
    assert stopping(None, GoalSpec(metric="val_loss", mode="max"), val_loss=losses).state.best_epoch == 1


def saved_steps(every_epochs: int, epochs: int) -> list[int]:
    steps: list[int] = []
    progress = Progress()

    def write() -> Path:
        steps.append(progress.step)
        return Path("checkpoint")

    checkpointing = Checkpointing(write, ListRecorder(), progress, every_epochs)
    for number in range(1, epochs + 1):
        progress.step = number * 10
        checkpointing.on_epoch_end(epoch(number, {}, is_last=number == epochs))
    checkpointing.save()  # a stop at the end of the last epoch saves nothing new
    return steps


def test_checkpoint_is_saved_every_n_epochs_and_after_the_last_and_recorded_if_it_is_written() -> None:
    assert saved_steps(every_epochs=1, epochs=3) == [10, 20, 30]
    assert saved_steps(every_epochs=2, epochs=5) == [20, 40, 50]
    progress = Progress(epoch=3, epoch_step=4, step=24)
    for path, recorded in ((Path("/c/x.npz"), [(3, 24, "/c/x.npz")]), (None, [])):
        recorder = ListRecorder()
        Checkpointing(lambda path=path: path, recorder, progress, 1).save()
        assert [(record.epoch, record.step, record.path) for record in recorder.records] == recorded
