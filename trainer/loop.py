"""The training loop. Called by the session once all is built and restored; the same on every rank.

From top to bottom: `train`, an epoch, a step, the end of an epoch. Step time is host time: reading the tally of a step
waits for that step alone.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from statistics import fmean

import numpy as np

from jobs.model.plan import Plan
from jobs.model.spec import Spec
from trainer import distributed
from trainer.callbacks import Callback, Checkpointing, Epoch, Pace, Step, Times
from trainer.data.interfaces import Batch, Part
from trainer.data.opening import Dataset
from trainer.distributed import Ranks
from trainer.errors import Diverged, Outcome
from trainer.plan import steps_of
from trainer.state import Progress, State
from trainer.steps import StepFunction, Tally
from trainer.stopping import StopWatch

_LEAVE_PATIENCE_S = 15.0  # with a full disk, before a rank leaves that was asked to
_NO, _YES = np.zeros((), np.float32), np.ones((), np.float32)  # arrays: a tensor here would start TensorFlow


@dataclass
class Loop:
    """A training run from the position in `state` to the end or to a stop."""

    plan: Plan
    spec: Spec
    ranks: Ranks
    dataset: Dataset
    train_step: StepFunction
    evaluation_step: StepFunction
    state: State
    callbacks: Sequence[Callback]
    checkpointing: Checkpointing
    watch: StopWatch
    on_first_step: Callable[[], None]
    flush: Callable[[], None]
    waited: Callable[[float], None] = lambda _: None  # a wait for space goes on
    _made_first_step: bool = field(default=False, init=False)
    _timed_since: float = field(default=0.0, init=False)
    _times: Times = field(default_factory=Times, init=False)  # of the epoch in training

    def train(self) -> Outcome:
        """Train until the epochs are over, early stopping ends the run, or the ranks agree to stop."""
        self._timed_since = time.perf_counter()
        progress = self.progress
        with closing(
            self.dataset.train_batches(
                self.spec, self.plan, rank=self.ranks.rank, epoch=progress.epoch, first=progress.epoch_step
            )
        ) as batches:  # one stream over all epochs
            while not self.is_over():
                stop = not self._train_epoch(batches) or self._end_epoch()
                if stop and not self.is_over():
                    self._measure_wall()
                    self.checkpointing.save_before_leaving(_LEAVE_PATIENCE_S, self.waited)
                    return Outcome.STOP_REQUESTED
        self._measure_wall()
        return Outcome.EARLY_STOPPED if self.state.stopping.stopped else Outcome.COMPLETED

    @property
    def progress(self) -> Progress:
        """How far the run is."""
        return self.state.progress

    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state.stopping.stopped or self.progress.epoch > self.plan.epochs

    def evaluate(self, part: Part) -> tuple[float, float, bool]:
        """(loss, accuracy, whether a rank wishes to stop) over every sample of a part, on all ranks."""
        sums = [0.0, 0.0, 0.0]
        ranks, per_rank = self.ranks, self.plan.per_gpu_batch
        with closing(
            self.dataset.evaluation_batches(part, rank=ranks.rank, ranks=ranks.size, per_rank=per_rank)
        ) as batches:
            for batch in batches:
                values = self.evaluation_step(*batch).numpy().tolist()
                sums = [total + value for total, value in zip(sums, values, strict=True)]
        loss, hits, samples, wishes = distributed.sum_over_ranks([*sums, float(self.watch.requested.is_set())])
        return loss / samples, hits / samples, wishes > 0

    def _train_epoch(self, batches: Iterator[Batch]) -> bool:
        """Train to the end of the epoch; False when the ranks agreed to stop before it."""
        progress, steps = self.progress, steps_of(self.plan)[0]
        ended = time.perf_counter()
        while progress.epoch_step < steps:
            requested_at = time.perf_counter()
            batch = next(batches)
            data_wait_s = time.perf_counter() - requested_at
            for callback in self.callbacks:
                # Not `progress.step`: after a change of the number of ranks, some updates had another size.
                callback.on_step_begin((progress.epoch - 1) * steps + progress.epoch_step)
            wish = _YES if self.watch.requested.is_set() else _NO
            tally = Tally(*self.train_step(batch.features, batch.labels, wish).numpy().tolist())
            before, ended = ended, time.perf_counter()
            self._count(tally)
            step = Step(
                step=progress.step,
                epoch=progress.epoch,
                step_time_s=ended - before,
                data_wait_s=data_wait_s,
                allreduce_s=tally.allreduce_s,
                metrics={"loss": tally.own_loss, "accuracy": tally.own_accuracy},
            )
            self._time(step)
            for callback in self.callbacks:
                callback.on_step_end(step)
            if not self._made_first_step:
                ended = self._end_first_step()
            if self.checkpointing.is_overdue:  # it found no space
                self._measure_wall()
                self.checkpointing.save()
                ended = time.perf_counter()
            if tally.wishes > 0:
                return False
        return True

    def _count(self, tally: Tally) -> None:
        progress = self.progress
        progress.step += 1
        progress.epoch_step += 1
        if not math.isfinite(tally.loss):  # the average over all ranks, so that all leave here together
            place = f"step {progress.step} (epoch {progress.epoch})"
            raise Diverged(f"the loss is {tally.loss} at {place}: try a lower learning rate")
        progress.loss_sum += tally.loss
        progress.accuracy_sum += tally.accuracy

    def _time(self, step: Step) -> None:
        if self._made_first_step:
            self._times.add(step)
            self.progress.epoch_timed_samples += self.plan.global_batch
            self.progress.epoch_train_s += step.step_time_s

    def _end_first_step(self) -> float:
        """End the set-up, which includes the first update. Returns the time from which the run is measured."""
        self.on_first_step()
        self._made_first_step = True
        self._timed_since = time.perf_counter()
        return self._timed_since

    def _measure_wall(self) -> None:
        """Add the time since the last call to that of the training."""
        now = time.perf_counter()
        self.progress.wall_s += now - self._timed_since
        self._timed_since = now

    def _end_epoch(self) -> bool:
        """Validate, average over the ranks, call the callbacks, move on; True when the ranks agreed to stop."""
        progress, steps = self.progress, self.progress.epoch_step
        self.flush()
        started = time.perf_counter()
        val_loss, val_accuracy, wish = self.evaluate(self.dataset.validation)
        pace, damaged = self._average_over_ranks(validation_s=time.perf_counter() - started)
        epoch = Epoch(
            epoch=progress.epoch,
            step=progress.step,
            metrics={
                "loss": progress.loss_sum / steps,
                "accuracy": progress.accuracy_sum / steps,
                "val_loss": val_loss,
                "val_accuracy": val_accuracy,
            },
            pace=pace,
            times=self._times,
            damaged=damaged,
            is_last=progress.epoch == self.plan.epochs,
        )
        progress.begin_next_epoch()
        self._times = Times()
        self._measure_wall()
        for callback in self.callbacks:
            callback.on_epoch_end(epoch)
        return wish

    def _average_over_ranks(self, *, validation_s: float) -> tuple[Pace, dict[str, str]]:
        """The mean pace of all ranks, and the samples that any of them found damaged; the same on every rank."""
        progress, times = self.progress, self._times
        own_pace = Pace(
            samples_per_s=progress.epoch_timed_samples / progress.epoch_train_s if progress.epoch_train_s else 0.0,
            epoch_s=progress.epoch_train_s + validation_s,
            data_wait_s=times.data_wait_s,
            allreduce_s=times.allreduce_s,
        )
        reports = distributed.gather([asdict(own_pace), self.dataset.damage()])
        pace = Pace(**{name: fmean(of_rank[name] for of_rank, _ in reports) for name in asdict(own_pace)})
        return pace, {name: why for _, damaged in reports for name, why in damaged.items()}
