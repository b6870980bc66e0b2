"""Steps whose tallies are read at once, or while the next step runs."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from trainer import stepping
from trainer.data.interfaces import Batch
from trainer.stepping import Made, Stepper

BATCH = Batch(np.zeros((1, 1), np.float32), np.zeros(1, np.int32))


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still until time passes."""
    now = 0.0

    def passing(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(stepping.time, "perf_counter", lambda: now)
    return passing


def test_a_wish_is_asked_for_when_the_batch_is_there() -> None:
    def train_step(_features: object, _labels: object, wish: tf.Tensor) -> tf.Tensor:
        return tf.stack([0.0, 0.0, 0.0, 0.0, wish, 0.0])

    stepper, wishes = Stepper(train_step, lag=0), []

    def waiting() -> Iterator[Batch]:
        wishes.append(True)  # somebody wishes to stop while the rank waits for data
        yield BATCH

    stepper.begin(waiting(), lambda: bool(wishes))
    assert [made.tally.wishes for made in stepper.read(keep=0)] == [1.0]


def test_times_of_steps_add_up_whether_they_run_in_their_call_or_after_it(pass_time: Callable[[float], None]) -> None:
    def slow_batches() -> Iterator[Batch]:
        while True:
            pass_time(1)
            yield BATCH

    class Tally:
        """A tally that the device still computes when its step has begun."""

        def numpy(self) -> object:
            pass_time(10)
            return np.zeros(6, np.float32)

    def train_step(*_: object) -> Tally:
        pass_time(100)
        return Tally()

    stepper = Stepper(train_step, lag=1)
    stepper._copier = None  # the clock has one thread
    stepper.restart_clock()
    made: list[Made] = []
    for _ in range(3):
        pass_time(1000)  # callbacks
        stepper.begin(slow_batches())
        made += stepper.read(keep=1)
    made += stepper.read(keep=0)
    assert [step.step_time_s for step in made] == [1111.0] * 3
    assert [step.data_wait_s for step in made] == [1.0] * 3
    pass_time(5000)  # a checkpoint
    stepper.restart_clock()
    stepper.begin(slow_batches())
    assert [step.step_time_s for step in stepper.read(keep=0)] == [111.0]
