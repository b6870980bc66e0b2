"""What happens around steps and epochs: one class, one job. Called by the loop, in the order the session lists them.

LearningRate      sets the learning rate
EarlyStopping     remembers the best epoch and says when to stop
Checkpointing     saves the state from which a restart continues

Those that only record are in `trainer.recording_callbacks` and `trainer.event_files`.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from jobs.model.plan import Plan
from jobs.model.records import CheckpointSaved, CheckpointSkipped
from jobs.model.spec import EPOCH_METRICS, Spec
from jobs.runtime.files import bytes_below
from trainer.checkpoint import saved_in
from trainer.errors import NoSpace
from trainer.recorder import Records
from trainer.schedules import learning_rate_of
from trainer.space import wait_for_space
from trainer.state import Plateau, Progress, Stopping

Weights = list[NDArray[Any]]

TRY_AGAIN_S = 5.0  # after a checkpoint for which there was no space


@dataclass(frozen=True)
class Step:
    """An update that was made; `metrics` are this rank's own."""

    step: int
    epoch: int
    step_time_s: float
    data_wait_s: float
    allreduce_s: float
    metrics: dict[str, float]


@dataclass
class Times:
    """What the steps of an epoch cost this rank."""

    steps_s: list[float] = field(default_factory=list)
    data_wait_s: float = 0.0
    allreduce_s: float = 0.0

    def add(self, step: Step) -> None:
        """Count a step."""
        self.steps_s.append(step.step_time_s)
        self.data_wait_s += step.data_wait_s
        self.allreduce_s += step.allreduce_s


@dataclass(frozen=True)
class Pace:
    """How fast an epoch went, averaged over all ranks and so equal on each."""

    samples_per_s: float  # 0.0 if the only update was the first of an attempt, which counts as set-up
    epoch_s: float  # steps and validation
    data_wait_s: float
    allreduce_s: float


@dataclass(frozen=True)
class Epoch:
    """A finished epoch. All fields but `times` are equal on all ranks."""

    epoch: int
    step: int
    metrics: dict[str, float]  # averaged over all ranks
    pace: Pace
    times: Times
    damaged: Mapping[str, str]  # unreadable samples that any rank has found while training, and why
    is_last: bool  # of the epochs that were asked for

    @property
    def monitored(self) -> dict[str, float]:
        """The metrics that early stopping can monitor, by the names of `jobs.model.tasks.epoch_metrics`."""
        return {**self.metrics, **asdict(self.pace)}


class Callback:
    """Methods that do nothing. A subclass overrides those that it needs."""

    def on_step_begin(self, update: int) -> None:
        """Before the update with this number, counted from 0."""

    def on_step_end(self, step: Step) -> None:
        """After every update."""

    def on_epoch_end(self, epoch: Epoch) -> None:
        """After every validation, on all ranks."""


class LearningRate(Callback):
    """Sets the optimizer's learning rate for each update, and lowers it on plateaus where the schedule says so.

    It watches plateaus on every rank and on averaged metrics, so all ranks have the same rate. The epochs of the
    warm-up are no plateau.
    """

    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        plateau: Plateau,
        optimizer: keras.optimizers.Optimizer,
        *,
        names: Collection[str] = EPOCH_METRICS,
    ) -> None:
        self._rate = math.nan
        self._plan = plan
        self._schedule = spec.schedule
        self._plateau = plateau
        self._optimizer = optimizer
        monitor = spec.schedule.monitor or spec.best_by(names)
        assert monitor is not None, "some epoch metric always counts"
        self._monitor, self._is_lower_better = monitor, spec.is_lower_better(monitor)

    def of(self, update: int) -> float:
        """The rate of an update, counted from 0."""
        return learning_rate_of(self._plan, self._schedule, update, lowered=self._plateau.lowered)

    def on_step_begin(self, update: int) -> None:
        """Set the rate where it changes."""
        rate = self.of(update)
        if rate != self._rate:
            self._rate = rate
            self._optimizer.learning_rate = rate

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Lower the rate if the epoch is the last one of a plateau."""
        schedule, plateau = self._schedule, self._plateau
        if schedule.name != "plateau":
            return
        assert schedule.min_delta is not None
        assert schedule.patience is not None
        value = epoch.monitored[self._monitor]
        if improves(value, plateau.best, is_lower_better=self._is_lower_better, min_delta=schedule.min_delta):
            plateau.best, plateau.wait = value, 0
        elif epoch.epoch > self._plan.warmup_epochs:
            plateau.wait += 1
        if plateau.wait >= schedule.patience:
            plateau.lowered += 1
            plateau.wait = 0


def improves(value: float, best: float | None, *, is_lower_better: bool, min_delta: float) -> bool:
    """Whether a value is better than the best one so far, by more than `min_delta`. NaN is worse than any number."""
    if best is None or math.isnan(best):
        return best is None or not math.isnan(value)
    gain = best - value if is_lower_better else value - best
    return gain > min_delta  # never true of NaN


class EarlyStopping(Callback):
    """Remembers the best epoch. Stops after `patience` epochs that were not better by `min_delta`.

    It runs on every rank and on averaged metrics, so all ranks stop at the same epoch. It has the rule of Keras's
    callback of this name. Without early stopping it only remembers, by the goal's metric.
    """

    def __init__(
        self,
        spec: Spec,
        state: Stopping,
        best_weights: Weights | None,
        weights_now: Callable[[], Weights],
        *,
        names: Collection[str] = EPOCH_METRICS,  # of the metrics of an epoch
    ) -> None:
        self.state = state
        self.best_weights = best_weights
        self._spec = spec.early_stopping
        monitor = spec.best_by(names)
        assert monitor is not None, "some epoch metric always counts"
        self._monitor, self._is_lower_better = monitor, spec.is_lower_better(monitor)
        self._min_delta = self._spec.min_delta if self._spec else 0.0
        self._weights_now = weights_now

    @property
    def restores(self) -> bool:
        """Whether the weights of the best epoch are kept in the end, instead of those of the last epoch."""
        return self._spec is not None and self._spec.restore_best_weights

    @property
    def kept_epoch(self) -> int:
        """The epoch whose weights are kept."""
        return self.state.best_epoch if self.restores else self.state.last_epoch

    @property
    def kept_metrics(self) -> dict[str, float]:
        """The metrics of the epoch whose weights are kept."""
        return self.state.best_metrics if self.restores else self.state.last_metrics

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Compare the epoch with the best one."""
        state, value = self.state, epoch.monitored[self._monitor]
        state.last_epoch, state.last_metrics = epoch.epoch, epoch.metrics
        state.epochs_s += epoch.pace.epoch_s
        if improves(value, state.best, is_lower_better=self._is_lower_better, min_delta=self._min_delta):
            state.best, state.best_epoch, state.best_metrics = value, epoch.epoch, epoch.metrics
            state.wait, state.after_best_s = 0, 0.0
            if self.restores:
                self.best_weights = self._weights_now()
            return
        state.after_best_s += epoch.pace.epoch_s
        state.wait += 1
        if self._spec is not None and state.wait >= self._spec.patience:
            state.stopped = True


class Checkpointing(Callback):
    """Saves every `every_epochs` epochs, at the last one, and when the loop is asked to stop.

    `write` writes the checkpoint and gives its path, or None on a rank that saves nothing. If there is no space, the
    run goes on, and the loop saves as soon as `is_overdue`.
    """

    def __init__(
        self, write: Callable[[], Path | None], recorder: Records, progress: Progress, every_epochs: int
    ) -> None:
        self._write = write
        self._recorder = recorder
        self._progress = progress
        self._every_epochs = every_epochs
        self._saved_step: int | None = None
        self._try_again_at = math.inf

    @property
    def is_overdue(self) -> bool:
        """Whether a checkpoint that was skipped for lack of space should be tried again now."""
        return time.monotonic() >= self._try_again_at

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Save if it is due. Save after the last epoch too, so that a restart finds the finished training."""
        if epoch.epoch % self._every_epochs == 0 or epoch.is_last:
            self.save()

    def save(self) -> None:
        """Save now, unless this step was saved already."""
        progress = self._progress
        if progress.step == self._saved_step:
            return
        started = time.perf_counter()
        try:
            path = self._write()
        except NoSpace as error:
            self._skip(str(error))
            return
        self._saved_step, self._try_again_at = progress.step, math.inf
        if path is not None:
            duration_s = time.perf_counter() - started
            record = CheckpointSaved(
                at=time.time(),
                epoch=progress.last_epoch,
                step=progress.step,
                path=str(path),
                duration_s=duration_s,
                kept=len(saved_in(path.parent)),
                stored_bytes=bytes_below(path.parent),
            )
            self._recorder.write(record)

    def save_before_leaving(self, within_s: float, waited: Callable[[float], None]) -> None:
        """Save now. Wait a little for space if there is none; after that, this attempt's last steps are lost."""

        def save() -> None:
            self.save()
            if self._try_again_at < math.inf:
                raise NoSpace("the last checkpoint cannot be written")

        try:
            wait_for_space(save, waited, within_s=within_s)
        except NoSpace as error:
            print(f"warning: nothing is saved of this attempt after its last checkpoint: {error}", flush=True)

    def _skip(self, why: str) -> None:
        """Note that the checkpoint is owed. It is recorded once until one can be saved."""
        is_first = self._try_again_at == math.inf
        self._try_again_at = time.monotonic() + TRY_AGAIN_S
        if is_first:
            progress = self._progress
            print(
                f"warning: no space: the checkpoint of step {progress.step} is skipped and tried again: {why}",
                flush=True,
            )
            self._recorder.write(
                CheckpointSkipped(at=time.time(), epoch=progress.last_epoch, step=progress.step, why=why)
            )


def weights_of(variables: list[keras.Variable]) -> Weights:
    """Copies of the values of Keras variables."""
    return [np.array(variable.numpy()) for variable in variables]
