"""The rate of each update, and how far a run is: between epochs, and when it continues with another batch."""

import json
import math
from typing import Any

import keras
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.plan import DatasetSizes, Plan
from jobs.model.spec import Spec, spec_from
from tests.unit.trainer.made_up import epoch
from trainer.callbacks import LearningRate
from trainer.errors import BadData
from trainer.plan import settle_plan
from trainer.schedules import learning_rate_of
from trainer.state import Plateau, Progress, State, Stopping

SIZES = DatasetSizes(train=1000, validation=100)
ALL = ["constant", "cosine", {"name": "exponential", "factor": 0.5}, "plateau", {"name": "step", "epochs": [1, 4]}]


def spec_with(**fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "batch_size": 50, "learning_rate": 0.1, "gpus": 2, "epochs": 6, **fields})


def plan_of(spec: Spec) -> Plan:
    """10 steps an epoch."""
    return settle_plan(spec, SIZES, gpus=spec.gpus)


def rates(updates: list[int], **fields: Any) -> list[float]:
    spec = spec_with(**fields)
    return [learning_rate_of(plan_of(spec), spec.schedule, update) for update in updates]


@pytest.mark.parametrize("schedule", ALL)
def test_warm_up_rises_linearly_per_step_from_the_base_rate_to_the_planned_rate(schedule: Any) -> None:
    found = rates([0, 5, 10, 19], warmup_epochs=2, lr_scaling="linear", schedule=schedule)  # 0.1 -> 0.2
    assert found == pytest.approx([0.1, 0.125, 0.15, 0.195])


def test_each_schedule_has_the_rate_of_its_formula() -> None:
    updates = [0, 9, 10, 39, 40, 45, 59]
    warm = {"warmup_epochs": 0}
    cosine = [0.1 * (0.2 + 0.8 * (1 + math.cos(math.pi * update / 60)) / 2) for update in updates]
    assert rates(updates, schedule={"name": "cosine", "final": 0.2}, **warm) == pytest.approx(cosine)
    assert rates(updates, schedule=ALL[4]) == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.001])
    assert rates(updates, schedule=ALL[2]) == pytest.approx([0.1 * 0.5 ** (update / 10) for update in updates])


def test_cosine_begins_where_the_warm_up_ends_and_is_nearly_at_its_end_with_the_last_update() -> None:
    found = rates([20, 40, 59, 60, 1000], schedule="cosine", warmup_epochs=2)
    assert found == pytest.approx([0.1, 0.05, 0.1 * (1 + math.cos(math.pi * 39 / 40)) / 2, 0.0, 0.0])


@given(st.sampled_from(ALL), st.integers(0, 8), st.integers(0, 100), st.sampled_from([25, 50, 100]), st.integers(1, 4))
def test_the_rate_depends_on_the_epochs_done_and_never_grows_after_the_warm_up(
    schedule: Any, warmup: int, update: int, batch: int, accumulate: int
) -> None:
    """A run that goes on with another batch has the rate of the same place in the data."""
    fields = {"schedule": schedule, "warmup_epochs": warmup, "steps_per_epoch": 10}
    first, second = rates([update, update + 1], **fields)
    (other,) = rates([update], **fields, batch_size=batch, accumulate=accumulate)
    assert other == first
    assert 0 <= second <= first or update < 10 * warmup
    twice = rates([2 * update], **{**fields, "steps_per_epoch": 20})
    assert twice == pytest.approx([first], abs=1e-12)


def losses_through(callback: LearningRate, losses: list[float], first: int = 1) -> list[float]:
    """The rate after each epoch."""
    found = []
    for number, loss in enumerate(losses, start=first):
        callback.on_epoch_end(epoch(number, {"val_loss": loss, "val_accuracy": 0.5}))
        callback.on_step_begin(10 * number)
        found.append(float(callback._optimizer.learning_rate.numpy()))
    return found


LOSSES = [1.0, 0.5, 0.5, math.nan, 0.4999, 0.5, 0.5, 0.2, 0.2, 0.2]
PLATEAU = {"name": "plateau", "monitor": "val_loss", "patience": 2, "factor": 0.5, "least": 0.02}


def plateaus(state: State, **fields: Any) -> LearningRate:
    spec = spec_with(schedule=PLATEAU, **fields)
    return LearningRate(spec, plan_of(spec), state.plateau, keras.optimizers.SGD(0.1))


def test_a_plateau_lowers_the_rate_after_so_many_epochs_without_a_gain_down_to_the_least() -> None:
    state = State(ranks=1, global_batch=100)
    found = losses_through(plateaus(state), LOSSES)
    assert found == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.02])
    assert losses_through(plateaus(State(1, 100), warmup_epochs=10), LOSSES)[-1] == pytest.approx(0.1)


@pytest.mark.parametrize("stop", range(1, len(LOSSES)))
def test_a_plateau_goes_on_from_a_checkpoint(stop: int) -> None:
    whole = losses_through(plateaus(State(1, 100)), LOSSES)
    state = State(1, 100)
    before = losses_through(plateaus(state), LOSSES[:stop])
    restored = State.from_json(state.to_json())
    assert before + losses_through(plateaus(restored), LOSSES[stop:], first=stop + 1) == whole


def test_a_checkpoint_without_a_plateau_is_read() -> None:
    text = State(1, 100).to_json().replace(', "plateau": {"best": null, "wait": 0, "lowered": 0}', "")
    assert "plateau" not in text
    assert State.from_json(text).plateau == Plateau()


def test_a_batch_larger_than_the_data_is_bad_data() -> None:
    with pytest.raises(BadData, match=r"^batch_size: a global batch of 2000 is larger"):
        plan_of(spec_with(batch_size=1000))


def test_run_with_another_global_batch_continues_at_the_same_place_in_the_data() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(epoch_step=10, sums=[5.0, 2.0], step=110))
    moved = state.on_plan(ranks=2, global_batch=128, steps_per_epoch=10).progress
    assert (moved.epoch_step, moved.sums, moved.step) == (5, [2.5, 1.0], 110)


def test_next_epoch_begins_with_empty_sums() -> None:
    progress = Progress(epoch=2, step=20, epoch_step=10, sums=[1.0], epoch_timed_samples=640, epoch_train_s=2.0)
    progress.begin_next_epoch()
    assert progress == Progress(epoch=3, step=20, timed_samples=640, train_s=2.0)


def test_a_checkpoint_of_before_there_were_tasks_can_be_read() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(step=3, epoch_step=3, sums=[1.5, 0.5]))
    document = json.loads(state.to_json())
    del document["progress"]["sums"]
    document["progress"] |= {"loss_sum": 1.5, "accuracy_sum": 0.5}
    assert State.from_json(json.dumps(document)) == state


def test_another_job_continues_with_times_of_its_own_and_is_not_over() -> None:
    def ended(*, stopped: bool) -> State:
        progress = Progress(epoch=9, step=80, timed_samples=5, train_s=3.0, wall_s=4.0)
        stopping = Stopping(best=0.9, best_epoch=5, wait=3, after_best_s=2.0, epochs_s=6.0, stopped=stopped)
        return State(ranks=1, global_batch=32, progress=progress, stopping=stopping)

    stopped = ended(stopped=True).for_next_job(lacks_best=False)
    assert stopped.progress == Progress(epoch=9, step=80)
    assert stopped.stopping == Stopping(best=0.9, best_epoch=5)
    assert ended(stopped=False).for_next_job(lacks_best=False).stopping.wait == 3, "its patience goes on"
    assert ended(stopped=False).for_next_job(lacks_best=True).stopping == Stopping()
