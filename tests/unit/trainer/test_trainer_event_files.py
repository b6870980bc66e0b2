"""Event files as TensorBoard reads them: each epoch and step once, and failed writes that do not end the job."""

import os
from functools import partial
from pathlib import Path

import pytest

from jobs.model.plan import DatasetSizes, Plan, resolve_plan
from jobs.model.spec import spec_from
from tests.event_files import event_points
from tests.unit.trainer.made_up import epoch
from trainer.callbacks import Step
from trainer.event_files import EpochEvents, EventFile, StepEvents, add_test
from trainer.schedules import learning_rate_of


def metrics(loss: float) -> dict[str, float]:
    return {"loss": loss, "accuracy": 0.5, "val_loss": loss + 1, "val_accuracy": 0.25}


def plan_of(*, steps_per_epoch: int, epochs: int) -> Plan:
    spec = spec_from({"dataset": "digits", "batch_size": 10, "learning_rate": 0.5, "epochs": epochs})
    return resolve_plan(spec, DatasetSizes(train=10 * steps_per_epoch, validation=10, test=0))


def step(number: int, loss: float) -> Step:
    return Step(
        step=number, epoch=1, step_time_s=0.5, data_wait_s=0.25, allreduce_s=0.125,
        metrics={"loss": loss, "accuracy": 0.75},
    )  # fmt: skip


def make(events: StepEvents, number: int, *, loss: float) -> None:
    events.on_step_begin(number - 1)
    events.on_step_end(step(number, loss))


def test_tensorboard_shows_each_epoch_once_after_several_attempts(tmp_path: Path) -> None:
    first = EpochEvents(tmp_path, lambda: 0.5, attempt=1, first_epoch=1)
    for number in (1, 2, 3):
        first.on_epoch_end(epoch(number, metrics(loss=9.0)))
    assert event_points(tmp_path / "train", "epoch_loss") == [(1, 9.0), (2, 9.0), (3, 9.0)]  # while the run goes on
    second = EpochEvents(tmp_path, lambda: 0.25, attempt=2, first_epoch=2)  # epoch 1 was in the checkpoint
    second.on_epoch_end(epoch(2, metrics(loss=4.0)))
    assert event_points(tmp_path / "train", "epoch_loss") == [(1, 9.0), (2, 4.0)]
    assert event_points(tmp_path / "validation", "epoch_loss") == [(1, 10.0), (2, 5.0)]
    assert event_points(tmp_path / "train", "epoch_learning_rate") == [(1, 0.5), (2, 0.25)]
    assert event_points(tmp_path / "train", "samples_per_s") == [(1, 640.0), (2, 640.0)]


def test_steps_of_a_new_attempt_continue_from_the_checkpoint(tmp_path: Path) -> None:
    plan = plan_of(steps_per_epoch=10, epochs=2)
    first = StepEvents(tmp_path, float, plan=plan, attempt=9, first_step=1)
    for number in range(1, 8):
        make(first, number, loss=9.0)
    second = StepEvents(tmp_path, float, plan=plan, attempt=10, first_step=4)  # 3 were in the checkpoint
    for number in (4, 5):
        make(second, number, loss=4.0)
    assert event_points(tmp_path / "steps", "batch_loss") == [(1, 9.0), (2, 9.0), (3, 9.0), (4, 4.0), (5, 4.0)]
    assert event_points(tmp_path / "steps", "samples_per_s") == [(number, 20.0) for number in range(1, 6)]


def test_a_step_has_its_own_rate_although_the_next_one_has_begun(tmp_path: Path) -> None:
    fields = {"dataset": "digits", "batch_size": 10, "learning_rate": 0.5, "base_batch": 5, "lr_scaling": "linear"}
    spec = spec_from({**fields, "warmup_epochs": 1, "epochs": 2})
    plan = resolve_plan(spec, DatasetSizes(train=40, validation=10, test=0))
    rate_of = partial(learning_rate_of, plan, spec.schedule)
    events = StepEvents(tmp_path, rate_of, plan=plan, attempt=1, first_step=1)
    events.on_step_begin(0)
    for number in (1, 2, 3):
        events.on_step_begin(number)
        events.on_step_end(step(number, loss=1.0))
    assert event_points(tmp_path / "steps", "batch_learning_rate") == [(1, 0.5), (2, 0.625), (3, 0.75)]


@pytest.mark.parametrize(("steps_per_epoch", "epochs", "every"), [(100, 10, 1), (100, 11, 2), (30_000, 90, 2700)])
def test_long_run_writes_only_every_nth_step(tmp_path: Path, steps_per_epoch: int, epochs: int, every: int) -> None:
    plan = plan_of(steps_per_epoch=steps_per_epoch, epochs=epochs)
    events = StepEvents(tmp_path, float, plan=plan, attempt=1, first_step=1)
    for number in range(1, 3 * every + 1):
        make(events, number, loss=number)
    assert event_points(tmp_path / "steps", "batch_loss") == [(every * n, every * n) for n in (1, 2, 3)]


def test_test_metrics_are_one_point_in_a_run_of_their_own(tmp_path: Path) -> None:
    for attempt, loss in ((1, 3.0), (2, 2.0)):  # attempt 2 replaces the point of attempt 1
        add_test(tmp_path, 7, {"loss": loss, "accuracy": 0.5}, attempt=attempt)
    assert event_points(tmp_path / "test", "epoch_loss") == [(7, 2.0)]


def test_a_folder_that_cannot_be_made_and_a_full_disk_are_logged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train").write_text("in the way")
    events = EpochEvents(tmp_path, lambda: 0.5, attempt=1, first_epoch=1)
    for number in (1, 2):
        events.on_epoch_end(epoch(number, metrics(loss=1.0)))
    assert capsys.readouterr().out.count("nothing more is written for TensorBoard") == 1
    assert event_points(tmp_path / "validation", "epoch_loss") == [(1, 2.0), (2, 2.0)]
    os.symlink("/dev/full", tmp_path / f"events.out.tfevents.{1:010}")
    full = EventFile(tmp_path, attempt=1, first_step=1)
    for number in range(1000):
        full.add(number, {"loss": 1.0})
    assert capsys.readouterr().out.count("No space left on device") == 1
