"""The callbacks, one by one, on made-up epochs."""

from pathlib import Path

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
        early_stopping.on_epoch_end(epoch(number, {name: value}))
    return early_stopping


def test_training_stops_after_patience_epochs_without_a_gain() -> None:
    spec = EarlyStoppingSpec(patience=2)
    assert not stopping(spec, val_accuracy=[0.5, 0.6, 0.6]).state.stopped
    after = stopping(spec, val_accuracy=[0.5, 0.6, 0.6, 0.6005])  # a gain below min_delta does not count
    assert after.state.stopped
    assert after.state.best_epoch == 2


def test_a_gain_resets_the_wait() -> None:
    assert not stopping(EarlyStoppingSpec(patience=2), val_accuracy=[0.5, 0.4, 0.6, 0.5]).state.stopped


def test_a_loss_is_better_when_it_is_lower() -> None:
    after = stopping(EarlyStoppingSpec(monitor="val_loss", patience=2), val_loss=[1.0, 0.5, 0.7, 0.6])
    assert (after.state.best, after.state.best_epoch, after.state.stopped) == (0.5, 2, True)


def test_a_time_is_better_when_it_is_lower_and_a_rate_when_it_is_higher() -> None:
    early_stopping = EarlyStopping(spec_with(EarlyStoppingSpec(monitor="epoch_s")), Stopping(), None, list)
    for number, epoch_s in enumerate([3.0, 2.0, 4.0], start=1):
        early_stopping.on_epoch_end(epoch(number, {}, epoch_s=epoch_s))
    assert early_stopping.state.best_epoch == 2
    early_stopping = EarlyStopping(spec_with(EarlyStoppingSpec(monitor="samples_per_s")), Stopping(), None, list)
    for number, samples_per_s in enumerate([5.0, 9.0, 7.0], start=1):
        early_stopping.on_epoch_end(epoch(number, {}, samples_per_s=samples_per_s))
    assert early_stopping.state.best_epoch == 2


def test_epoch_has_every_metric_that_a_spec_may_monitor() -> None:
    metrics = {"loss": 1.0, "accuracy": 0.5, "val_loss": 1.0, "val_accuracy": 0.5}
    assert epoch(1, metrics).monitored.keys() == set(epoch_metrics("classification", 3))


@pytest.mark.parametrize(("losses", "best_epoch"), [([1.0, NAN], 1), ([NAN, 1.0, NAN], 2), ([NAN, NAN], 1)])
def test_nan_is_never_better(losses: list[float], best_epoch: int) -> None:
    after = stopping(EarlyStoppingSpec(monitor="val_loss"), val_loss=losses)
    assert (after.state.best_epoch, after.state.wait) == (best_epoch, len(losses) - best_epoch)


def test_after_best_share_is_the_share_of_time_after_the_best_epoch() -> None:
    early_stopping = EarlyStopping(spec_with(EarlyStoppingSpec()), Stopping(), None, list)
    for number, (value, epoch_s) in enumerate([(0.5, 3.0), (0.9, 2.0), (0.8, 1.0), (0.7, 2.0)], start=1):
        early_stopping.on_epoch_end(epoch(number, {"val_accuracy": value}, epoch_s=epoch_s))
    assert early_stopping.state.after_best_share == 3 / 8
    early_stopping.on_epoch_end(epoch(5, {"val_accuracy": 0.95}))
    assert early_stopping.state.after_best_share == 0


def test_the_weights_and_metrics_of_the_best_epoch_are_kept() -> None:
    after = stopping(EarlyStoppingSpec(), val_accuracy=[0.5, 0.9, 0.7])
    assert after.restores
    assert after.best_weights is not None
    assert after.best_weights[0] == 2
    assert (after.kept_epoch, after.kept_metrics) == (2, {"val_accuracy": 0.9})


@pytest.mark.parametrize("spec", [None, EarlyStoppingSpec(restore_best_weights=False)])
def test_last_epoch_is_kept_and_the_best_one_named_without_restoring(spec: EarlyStoppingSpec | None) -> None:
    after = stopping(spec, val_accuracy=[0.5, 0.9, 0.7])
    assert not after.restores
    assert after.best_weights is None
    assert (after.kept_epoch, after.kept_metrics) == (3, {"val_accuracy": 0.7})
    assert after.state.best_epoch == 2


def test_without_early_stopping_the_goal_says_which_epoch_is_best() -> None:
    losses = [1.0, 0.5, 0.7]
    assert stopping(None, GoalSpec(metric="val_loss"), val_loss=losses).state.best_epoch == 2
    assert stopping(None, GoalSpec(metric="val_loss", mode="max"), val_loss=losses).state.best_epoch == 1


def test_training_never_stops_early_when_early_stopping_is_off() -> None:
    assert not stopping(None, val_accuracy=[0.5] * 50).state.stopped


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


def test_checkpoint_is_saved_every_n_epochs_and_after_the_last() -> None:
    assert saved_steps(every_epochs=1, epochs=3) == [10, 20, 30]
    assert saved_steps(every_epochs=2, epochs=5) == [20, 40, 50]


def test_checkpoint_is_recorded_only_when_it_is_written() -> None:
    progress = Progress(epoch=3, epoch_step=4, step=24)
    writing, not_writing = ListRecorder(), ListRecorder()
    Checkpointing(lambda: Path("/c/x.npz"), writing, progress, 1).save()
    Checkpointing(lambda: None, not_writing, progress, 1).save()
    assert [(record.epoch, record.step, record.path) for record in writing.records] == [(3, 24, "/c/x.npz")]
    assert not_writing.records == []
