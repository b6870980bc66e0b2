"""The callbacks, one by one, on made-up epochs: what they decide, what they record, and what they print."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.model.plan import DatasetSizes
from jobs.model.records import RankEpochEnded, Summary
from jobs.model.spec import EarlyStopping as EarlyStoppingSpec
from jobs.model.spec import GoalSpec, Spec, spec_from
from jobs.model.tasks import epoch_metrics
from tests.networks import facts
from tests.unit.trainer.made_up import ListRecorder, epoch
from trainer.callbacks import Checkpointing, EarlyStopping, Step, Times
from trainer.data.opening import Dataset
from trainer.errors import BadData, Outcome
from trainer.log_lines import EpochLines, result
from trainer.recording_callbacks import DamageWatch, EpochRecording, RankRecording
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


FACTS = facts(
    8, 8, 1, classes=2, sizes=DatasetSizes(train=298, validation=100, test=0),
    damaged={"a/0.png": "empty", "a/1.png": "empty"},
)  # fmt: skip


class Unreadable:
    """A part that is never read; only its damage is asked for."""

    def __init__(self, damage_by_file: dict[str, str]) -> None:
        self.damage = lambda: damage_by_file

    def __len__(self) -> int:
        return 100


def step(number: int, *, step_time_s: float = 0.5) -> Step:
    return Step(
        step=number, epoch=1, step_time_s=step_time_s, data_wait_s=0.25, allreduce_s=0.125, metrics={"loss": 1.0}
    )


def rank_epoch(times: Times) -> RankEpochEnded:
    recorder = ListRecorder()
    RankRecording(recorder, global_batch=128).on_epoch_end(epoch(2, {}, times=times))
    (record,) = recorder.records
    assert isinstance(record, RankEpochEnded)
    return record


def test_steps_and_epochs_are_recorded_with_their_times_rates_and_throughput() -> None:
    recorder, times = ListRecorder(), Times()
    RankRecording(recorder, global_batch=128).on_step_end(step(5))
    EpochRecording(recorder, lambda: 0.004).on_epoch_end(epoch(2, {"loss": 1.5}))
    of_step, of_job = recorder.records
    assert (of_step.samples_per_s, of_step.allreduce_s) == (256, 0.125)  # of all ranks
    assert (of_job.learning_rate, of_job.metrics) == (0.004, {"loss": 1.5})
    assert (of_job.wall_s, of_job.samples_per_s, of_job.data_wait_s, of_job.allreduce_s) == (2.0, 640.0, 0.5, 0.25)
    for number in range(1, 101):
        times.add(step(number, step_time_s=number / 100))
    record = rank_epoch(times)
    assert record.step_time_p50_s == pytest.approx(np.median(times.steps_s))
    assert 0.95 <= record.step_time_p95_s <= 0.96
    assert (record.epoch, record.step, record.data_wait_s, record.allreduce_s) == (2, 20, 25.0, 12.5)
    record = rank_epoch(Times())  # only the set-up step
    assert (record.step_time_p50_s, record.step_time_p95_s, record.data_wait_s) == (0.0, 0.0, 0.0)


def watch(own: dict[str, str]) -> tuple[DamageWatch, ListRecorder]:
    recorder, dataset = ListRecorder(), Dataset(FACTS, Unreadable(own), Unreadable({}), None)  # type: ignore[arg-type]
    return DamageWatch(dataset, recorder, name="chips"), recorder


def test_new_damage_is_recorded_once_and_named_by_the_rank_that_found_it(capsys: pytest.CaptureFixture[str]) -> None:
    damage_watch, recorder = watch(own={"b/2.png": "cut off"})
    damage_watch.on_epoch_end(epoch(2, {}, damaged={"a/0.png": "empty"}))  # known from the survey
    assert recorder.records == []
    for _ in range(2):
        damage_watch.on_epoch_end(epoch(2, {}, damaged={"b/2.png": "cut off", "b/3.png": "found by another rank"}))
    assert [record.damaged for record in recorder.records] == [4]
    assert recorder.records[0].damaged_files == ["a/0.png", "a/1.png", "b/2.png", "b/3.png"]
    assert capsys.readouterr().out == "warning: damaged and left out: b/2.png: cut off\n"


def test_more_than_one_per_cent_of_damage_ends_the_run() -> None:
    damage_watch, _ = watch(own={})  # 400 samples, with the 2 that were found at first
    damage_watch.on_epoch_end(epoch(2, {}, damaged={f"b/{number}.png": "cut off" for number in range(2)}))
    with pytest.raises(BadData, match=r"^chips: 5 of 400 samples are damaged, more than 1 %: a/0\.png: empty; "):
        damage_watch.on_epoch_end(epoch(2, {}, damaged={f"b/{number}.png": "cut off" for number in range(3)}))


def test_each_epoch_and_the_result_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stopping = Stopping(best_epoch=1)
    lines = EpochLines(9, stopping)
    for number in (1, 2):
        lines.on_epoch_end(epoch(number, {"loss": 0.123456, "val_accuracy": 0.5}))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1 of 9: loss 0.1235, val_accuracy 0.5; ")
    assert first.endswith(" samples/s; the best so far")
    assert second.startswith("epoch 2 of 9: ")
    assert second.endswith(" samples/s")
    summary = Summary(
        best_epoch=1, epochs_run=2, val_accuracy=0.97, val_loss=0.25, train_samples_per_s=12345.6, wall_s=61.23,
        setup_s=1.0, parameters=10, trainable_parameters=10, model_bytes=40, after_best_share=0.1, stopped_early=True,
    )  # fmt: skip
    assert result(Outcome.EARLY_STOPPED, summary, kept_epoch=1, metrics={"val_loss": 0.25}) == (
        "stopped early after epoch 2; kept is epoch 1: val_loss 0.25; 61.2 s, 12,346 samples/s"
    )
