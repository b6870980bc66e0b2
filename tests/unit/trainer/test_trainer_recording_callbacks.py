"""What a run records of its steps, its epochs and its damaged samples."""

import numpy as np
import pytest

from jobs.model.plan import DatasetSizes
from jobs.model.records import RankEpochEnded
from tests.networks import facts
from tests.unit.trainer.made_up import ListRecorder, epoch
from trainer.callbacks import Step, Times
from trainer.data.opening import Dataset
from trainer.errors import BadData
from trainer.recording_callbacks import DamageWatch, EpochRecording, RankRecording

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
