"""The training loop. Called by the session once all is built and restored; the same on every rank.

From top to bottom: `train`, an epoch, a step, the end of an epoch. A GPU may work on a step whose tally is not read yet
(`trainer.stepping`). `Progress` counts the steps that were read. Where the weights are used, none is unread.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from jobs.model.plan import Plan
from jobs.model.spec import Spec
from trainer import distributed
from trainer.callbacks import Callback, Checkpointing, Epoch, Pace, Step, Times
from trainer.data.interfaces import Batch, Part
from trainer.data.opening import Dataset
from trainer.data.prefetch import Place
from trainer.distributed import Ranks
from trainer.errors import Diverged, Outcome
from trainer.measures import Measures, named
from trainer.plan import steps_of
from trainer.schedules import learning_rate_of
from trainer.state import Progress, State
from trainer.stepping import Stepper
from trainer.steps import StepFunction, Tally
from trainer.stopping import StopWatch

_LEAVE_PATIENCE_S = 15.0  # with a full disk, before a rank leaves that was asked to


@dataclass
class Loop:
    """A training run from the position in `state` to the end or to a stop."""

    plan: Plan
    spec: Spec
    ranks: Ranks
    dataset: Dataset
    stepper: Stepper
    evaluation_step: StepFunction
    measures: Measures
    state: State
    callbacks: Sequence[Callback]
    checkpointing: Checkpointing
    watch: StopWatch
    on_first_step: Callable[[], None]
    flush: Callable[[], None]
    waited: Callable[[float], None] = lambda _: None  # a wait for space goes on
    place: Place | None = None  # copies an array to the device of the steps
    _made_first_step: bool = field(default=False, init=False)
    _last_step: int = field(default=0, init=False)  # of the epoch in training
    _stops: bool = field(default=False, init=False)  # the ranks agreed to stop after that step
    _timed_since: float = field(default=0.0, init=False)
    _times: Times = field(default_factory=Times, init=False)  # of the epoch in training

    def train(self) -> Outcome:
        """Train until the epochs are over, early stopping ends the run, or the ranks agree to stop.

        A run that is stopped for good is pruned: its search wants no more of it.
        """
        self._timed_since = time.perf_counter()
        progress = self.progress
        with closing(
            self.dataset.train_batches(
                self.spec,
                self.plan,
                rank=self.ranks.rank,
                epoch=progress.epoch,
                first=progress.epoch_step,
                place=self.place,
            )
        ) as batches:  # one stream over all epochs
            while not self.is_over():
                stop = not self._train_epoch(batches) or self._end_epoch()
                if stop and not self.is_over():
                    self._measure_wall()
                    self.checkpointing.save_before_leaving(_LEAVE_PATIENCE_S, self.waited)
                    return Outcome.PRUNED if self._finishes() else Outcome.STOP_REQUESTED
        self._measure_wall()
        return Outcome.EARLY_STOPPED if self.state.stopping.stopped else Outcome.COMPLETED

    @property
    def progress(self) -> Progress:
        """How far the run is."""
        return self.state.progress

    def is_over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state.stopping.stopped or self.progress.epoch > self.plan.epochs

    def _finishes(self) -> bool:
        """Whether a rank knows that the job does not continue, and there is an epoch to sum up.

        Others may not have looked at their files yet since the ranks agreed to stop.
        """
        (finishing,) = distributed.sum_over_ranks([float(self.watch.finishes)])
        return finishing > 0 and self.state.stopping.last_epoch > 0

    def evaluate(self, part: Part, limit: int | None = None) -> tuple[dict[str, float], bool]:
        """The metrics of a part, or of `limit` of its samples, on all ranks; and whether a rank wishes to stop."""
        sums: Any = 0.0
        ranks, per_rank = self.ranks, self.plan.per_gpu_batch * self.plan.gpus // self.ranks.size
        with closing(
            self.dataset.evaluation_batches(
                part, rank=ranks.rank, ranks=ranks.size, per_rank=per_rank, samples=limit, place=self.place
            )
        ) as batches:
            for batch in batches:
                sums = sums + self.evaluation_step(*batch).numpy().astype(np.float64)
        *totals, wishes = distributed.sum_over_ranks([*sums.tolist(), float(self.watch.requested.is_set())])
        return self.measures.evaluated(np.array(totals)), wishes > 0

    def _train_epoch(self, batches: Iterator[Batch]) -> bool:
        """Train to the end of the epoch; False when the ranks agreed to stop before it."""
        self._last_step = steps_of(self.plan)[0]
        self.stepper.restart_clock()
        while self._begun < self._last_step:
            self._begin_step(batches)
            owes_checkpoint = self.checkpointing.is_overdue  # it found no space
            self._end_steps(keep=self.stepper.lag if self._made_first_step and not owes_checkpoint else 0)
            if not self._made_first_step:
                self._end_first_step()
            if owes_checkpoint:
                self._measure_wall()
                self.checkpointing.save()
                self.stepper.restart_clock()
        self._end_steps(keep=0)
        return not self._stops

    @property
    def _begun(self) -> int:
        """Steps of the epoch in training that have begun; some may be unread."""
        return self.progress.epoch_step + self.stepper.unread

    def _begin_step(self, batches: Iterator[Batch]) -> None:
        for callback in self.callbacks:
            # Not `progress.step`: after a change of the number of ranks, some updates had another size.
            callback.on_step_begin((self.progress.epoch - 1) * steps_of(self.plan)[0] + self._begun)
        self.stepper.begin(batches, self.watch.requested.is_set)

    def _end_steps(self, *, keep: int) -> None:
        """Read the tallies of all steps but the last `keep` ones."""
        for made in self.stepper.read(keep=keep):
            self._count(made.tally)
            step = Step(
                step=self.progress.step,
                epoch=self.progress.epoch,
                step_time_s=made.step_time_s,
                data_wait_s=made.data_wait_s,
                allreduce_s=made.tally.allreduce_s,
                metrics=self.measures.trained(made.tally.own_figures),
            )
            self._time(step)
            for callback in self.callbacks:
                callback.on_step_end(step)
            if made.tally.wishes > 0:
                # Other ranks may have begun so many more steps. A step that not all ranks make would never end.
                self._stops = True
                self._last_step = min(self._last_step, self.progress.epoch_step + self.stepper.lag)

    def _count(self, tally: Tally) -> None:
        progress = self.progress
        progress.step += 1
        progress.epoch_step += 1
        loss = tally.figures[0]
        if not math.isfinite(loss):  # the average over all ranks, so that all leave here together
            raise Diverged(self._why_diverged(loss))
        progress.add_figures(tally.figures)

    def _why_diverged(self, loss: float) -> str:
        """Where the loss was no number any more, and what can be done. The updates before that step are the cause."""
        progress, spec = self.progress, self.spec
        place = f"the loss is {loss} at step {progress.step} (epoch {progress.epoch})"
        if progress.step == 1:
            return f"{place}, before the first update: look for huge values in the data, or in weights it starts from"
        update = (progress.epoch - 1) * steps_of(self.plan)[0] + progress.epoch_step - 1
        rate = learning_rate_of(self.plan, spec.schedule, update, lowered=self.state.plateau.lowered)
        unset = {"warmup_epochs": not self.plan.warmup_epochs, "clip_norm": spec.clip_norm is None}
        further = " or ".join(name for name, is_unset in unset.items() if is_unset)
        lower = f"{place} with a learning rate of {rate:g}: try a lower learning rate"
        return f"{lower}, or set {further}" if further else lower

    def _time(self, step: Step) -> None:
        if self._made_first_step:
            self._times.add(step)
            self.progress.epoch_timed_samples += self.plan.global_batch
            self.progress.epoch_train_s += step.step_time_s

    def _end_first_step(self) -> None:
        """End the set-up, which includes the first update. The run is measured from here on."""
        self.on_first_step()
        self._made_first_step = True
        self._timed_since = time.perf_counter()
        self.stepper.restart_clock()

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
        validated, wish = self.evaluate(self.dataset.validation, self.plan.validation_samples)
        pace, damaged = self._average_over_ranks(validation_s=time.perf_counter() - started)
        epoch = Epoch(
            epoch=progress.epoch,
            step=progress.step,
            metrics={
                **self.measures.trained([total / steps for total in progress.sums]),
                **named("val_", validated),
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
