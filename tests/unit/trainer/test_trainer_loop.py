"""The loop on one rank, with steps that only count: where it stops, and that nothing is saved of an unread step."""

import math
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from jobs.model.plan import DatasetSizes, resolve_plan
from jobs.model.spec import spec_from
from trainer import stepping
from trainer.callbacks import Callback, Checkpointing, Epoch, Step
from trainer.data.interfaces import Batch, EvaluationBatch
from trainer.data.opening import Dataset
from trainer.distributed import Ranks
from trainer.errors import Diverged, Outcome
from trainer.loop import Loop
from trainer.measures import Classification
from trainer.state import State
from trainer.stepping import Made, Stepper
from trainer.stopping import StopWatch

STEPS, EPOCHS = 6, 2


pytestmark = pytest.mark.usefixtures("connected")


@dataclass
class Scene(Callback):
    """A training of counted steps. `begun` are the steps that changed the weights."""

    wished_at: int = 0  # the step whose tally has a wish to stop
    diverged_at: int = 0
    overdue_after: int = 0  # so many begun steps a checkpoint is overdue
    begun: int = 0
    events: list[str] = field(default_factory=list)

    def train_step(self, _features: Any, _labels: Any, wish: Any) -> tf.Tensor:
        self.begun += 1
        loss = math.nan if self.begun == self.diverged_at else float(self.begun)
        wishes = 0.5 if self.begun == self.wished_at else float(wish)
        return tf.constant([loss, 1.0, loss, 1.0, wishes, 0.0])

    def on_step_begin(self, update: int) -> None:
        self.events.append(f"begin {update}")

    def on_step_end(self, step: Step) -> None:
        assert step.metrics["loss"] == step.step  # each figure belongs to its step
        self.events.append(f"end {step.step}")

    def on_epoch_end(self, epoch: Epoch) -> None:
        assert epoch.metrics["loss"] == sum(range(epoch.step - STEPS + 1, epoch.step + 1)) / STEPS
        self.events.append(f"epoch {epoch.epoch}")

    @property
    def is_overdue(self) -> bool:
        return 0 < self.overdue_after == self.begun

    def save(self) -> None:
        self.overdue_after = 0
        self.events.append("save")

    def save_before_leaving(self, *_: object) -> None:
        self.events.append("save")

    def loop(self, *, lag: int) -> Loop:
        spec = spec_from({"dataset": "digits", "batch_size": 1, "learning_rate": 0.1, "epochs": EPOCHS})
        return Loop(
            plan=resolve_plan(spec, DatasetSizes(train=STEPS, validation=1, test=0)),
            spec=spec,
            ranks=Ranks(0, 0, 1, 1),
            dataset=cast("Dataset", Batches()),
            stepper=Stepper(self.train_step, lag=lag),
            evaluation_step=lambda *_: tf.constant([1.0, 1.0, 1.0]),
            measures=Classification(classes=3),
            state=State(ranks=1, global_batch=1),
            callbacks=[self],
            checkpointing=cast("Checkpointing", self),
            watch=cast("StopWatch", SimpleNamespace(requested=threading.Event(), finishes=False)),
            on_first_step=lambda: self.events.append("first"),
            flush=lambda: None,
        )


class Batches:
    """A dataset of blank batches."""

    validation = None

    def train_batches(self, *_: object, **__: object) -> Generator[Batch, None, None]:
        while True:
            yield Batch(np.zeros((1, 1), np.float32), np.zeros(1, np.int32))

    def evaluation_batches(self, *_: object, **__: object) -> Generator[EvaluationBatch, None, None]:
        yield EvaluationBatch(np.zeros((1, 1), np.float32), np.zeros(1, np.int32), np.ones(1, np.float32))

    def damage(self) -> dict[str, str]:
        return {}


def test_an_epoch_ends_when_all_its_steps_are_read() -> None:
    scene = Scene()
    assert scene.loop(lag=1).train() is Outcome.COMPLETED
    assert scene.events == [
        "begin 0", "end 1", "first",  # nothing overlaps the first step: the ranks compare their weights after it
        "begin 1", "begin 2", "end 2", "begin 3", "end 3", "begin 4", "end 4", "begin 5", "end 5", "end 6", "epoch 1",
        "begin 6", "begin 7", "end 7", "begin 8", "end 8", "begin 9", "end 9", "begin 10", "end 10", "begin 11",
        "end 11", "end 12", "epoch 2",
    ]  # fmt: skip


def test_without_a_lag_a_step_begins_when_the_last_one_is_read() -> None:
    scene = Scene()
    assert scene.loop(lag=0).train() is Outcome.COMPLETED
    assert [event for event in scene.events if event[0] in "be"][:6] == [
        "begin 0", "end 1", "begin 1", "end 2", "begin 2", "end 3",
    ]  # fmt: skip


# The last step: of the first step, in the middle, at the end of an epoch, and just before it.
@pytest.mark.parametrize(
    ("wished_at", "lag", "last"), [(1, 1, 2), (3, 0, 3), (3, 1, 4), (3, 2, 5), (6, 1, 6), (5, 2, 6)]
)
def test_ranks_leave_as_many_steps_after_a_wish_as_may_be_unread(wished_at: int, lag: int, last: int) -> None:
    scene = Scene(wished_at=wished_at)
    loop = scene.loop(lag=lag)
    assert loop.train() is Outcome.STOP_REQUESTED
    assert (scene.begun, loop.progress.step, loop.progress.epoch_step) == (last, last, last)
    assert scene.events[-2:] == [f"end {last}", "save"]


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("overdue_after", [2, 3, 4, 5])
def test_an_overdue_checkpoint_has_no_unread_step_and_changes_no_other_rank_s_last_step(
    lag: int, overdue_after: int
) -> None:
    scenes = [Scene(wished_at=3), Scene(wished_at=3, overdue_after=overdue_after)]  # only rank 0 saves
    for scene in scenes:
        scene.loop(lag=lag).train()
    assert scenes[0].begun == scenes[1].begun == 3 + lag
    if overdue_after <= 3 + lag:
        assert scenes[1].events[scenes[1].events.index("save") - 1] == f"end {overdue_after}"


@pytest.mark.parametrize(("diverged_at", "overdue_after"), [(1, 0), (3, 0), (4, 4), (STEPS, 0), (STEPS + 1, 0)])
def test_nothing_is_saved_after_a_loss_that_is_not_a_number(diverged_at: int, overdue_after: int) -> None:
    scene = Scene(diverged_at=diverged_at, overdue_after=overdue_after)
    epoch = 1 if diverged_at <= STEPS else 2
    with pytest.raises(Diverged) as raised:
        scene.loop(lag=1).train()
    rate = "with a learning rate of 0.1: try a lower learning rate, or set warmup_epochs or clip_norm"
    why = rate if diverged_at > 1 else "before the first update: look for huge values in the data"
    assert str(raised.value).startswith(f"the loss is nan at step {diverged_at} (epoch {epoch})")
    assert why in str(raised.value)
    assert "save" not in scene.events
    assert scene.events.count("epoch 1") == epoch - 1
    assert scene.begun <= diverged_at + 1


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
