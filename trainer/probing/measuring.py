"""Measures the time of a step with one batch, on all ranks together. Made and called by `trainer.probe`.

A rank that runs out of memory within a step with a collective leaves the others waiting. So each rank first makes the
same step alone, and they agree whether all could.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from jobs.model.launch import Launch
from jobs.model.plan import Plan
from jobs.model.records import ProbePoint, ProbeStepped
from jobs.model.spec import ProbeSpec
from trainer import distributed
from trainer.data.interfaces import Batch, Features, Labels
from trainer.data.opening import Dataset
from trainer.distributed import Ranks, fail_together
from trainer.errors import is_out_of_memory
from trainer.mirrored import Mirrored
from trainer.pipeline import PIPELINES, Pipeline
from trainer.probing import memory
from trainer.recorder import Records
from trainer.stepping import Stepper
from trainer.steps import StepFunction

_NO = np.zeros((), np.float32)  # no wish to stop
_UNTIMED = 3  # steps before those that count: the first one is traced, the others estimate the time of a step
_LEAST, _MOST = 3, 10_000  # steps that count
_REPORT_EVERY_S = 1.0


class Timed(NamedTuple):
    """The times of a step on a rank, or the medians of several steps."""

    data_wait_s: float
    step_s: float  # without the wait
    allreduce_s: float


def thirds(steps: Sequence[Timed]) -> list[Sequence[Timed]]:
    """The steps in three stretches. The quickest one counts: other programs may have disturbed the others."""
    size = len(steps) // 3
    return [steps[:size], steps[size:-size], steps[-size:]]


def medians(steps: Sequence[Timed]) -> Timed:
    """The median of each time."""
    return Timed(*map(median, zip(*steps, strict=True)))


def averaged(of_ranks: Sequence[Sequence[Sequence[float]]]) -> list[Timed]:
    """The mean over the ranks, for each of the same stretches."""
    return [Timed(*map(fmean, zip(*stretch, strict=True))) for stretch in zip(*of_ranks, strict=True)]


@dataclass
class Measuring:
    """Measures one batch after the other. `alone` is `train_step` without collectives."""

    launch: Launch
    probe: ProbeSpec
    ranks: Ranks
    dataset: Dataset
    train_step: StepFunction
    alone: StepFunction
    recorder: Records  # of the whole job
    mirrored: Mirrored | None = None

    @property
    def pipeline(self) -> Pipeline:
        """How a training keeps the device busy; so does the probe."""
        return PIPELINES[self.launch.device]

    def measure(self, plan: Plan) -> ProbePoint:
        """Measure the batch of `plan`. The same on every rank. Raises like a training, except for lack of memory."""
        self._report(plan, steps=0)
        memory.begin_peak(self.launch.device)
        point = ProbePoint(per_gpu_batch=plan.per_gpu_batch, global_batch=plan.global_batch, fits=False)
        with closing(
            self.dataset.train_batches(
                self.launch.spec, plan, rank=self.ranks.rank, epoch=1, first=0, place=self.pipeline.place(self.mirrored)
            )
        ) as batches:
            if not all(distributed.gather(fail_together(lambda: self._fits(batches)))):
                return point
            timed = self._timed(batches, plan)
        of_ranks = distributed.gather([medians(third) for third in thirds(timed)])
        quickest = min(averaged(of_ranks), key=lambda third: third.step_s)
        peaks = distributed.gather(memory.peak_bytes(self.launch.device))
        return point.model_copy(
            update={
                "fits": True,
                "steps": len(timed),
                "step_time_s": quickest.step_s,
                "samples_per_s": plan.global_batch / quickest.step_s,
                "data_wait_s": quickest.data_wait_s,
                "allreduce_s": None if self.mirrored else quickest.allreduce_s,
                "memory_bytes": max(peaks),
            }
        )

    def _fits(self, batches: Iterator[Batch]) -> bool:
        try:
            self.alone(*next(batches), _NO).numpy()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            lines = str(error).splitlines()
            print("out of memory:", next((line for line in lines if "OOM" in line), *lines[:1]), flush=True)
            return False
        return True

    def _timed(self, batches: Iterator[Batch], plan: Plan) -> list[Timed]:
        """Time as many steps as fill the time. The number is the same on every rank."""
        stepper = Stepper(self.train_step, lag=self.pipeline.lag)
        _, *first = self._steps(stepper, batches, _UNTIMED)
        about_s = max(distributed.gather(median(step.data_wait_s + step.step_s for step in first)))
        steps = min(max(_LEAST, math.ceil(self.probe.seconds / about_s)), _MOST)
        timed: list[Timed] = []
        reported_at = time.perf_counter()
        stepper.restart_clock()
        for step in self._steps(stepper, batches, steps):
            timed.append(step)
            if time.perf_counter() - reported_at >= _REPORT_EVERY_S:
                reported_at = time.perf_counter()
                self._report(plan, steps=len(timed))
        return timed

    def _steps(self, stepper: Stepper, batches: Iterator[Batch], number: int) -> Iterator[Timed]:
        """Make so many steps as a training does."""
        for left in reversed(range(number)):
            stepper.begin(batches)
            for made in stepper.read(keep=min(stepper.lag, left)):
                yield Timed(made.data_wait_s, made.step_time_s - made.data_wait_s, made.tally.allreduce_s)

    def _report(self, plan: Plan, *, steps: int) -> None:
        self.recorder.write(ProbeStepped(at=time.time(), per_gpu_batch=plan.per_gpu_batch, steps=steps))


def dynamic(step: StepFunction, shape: tuple[int, ...], dtype: str) -> StepFunction:
    """A step that is traced once for batches of every size; samples are of this shape."""

    @cache
    def traced(labels: tf.TensorSpec) -> StepFunction:
        signature = [tf.TensorSpec((None, *shape), dtype), labels, tf.TensorSpec((), tf.float32)]
        return tf.function(step, input_signature=signature, autograph=False, jit_compile=False)  # type: ignore[no-any-return]

    def for_any_batch(features: Features, labels: Labels, wish: NDArray[np.float32]) -> tf.Tensor:
        return traced(tf.TensorSpec((None, *labels.shape[1:]), labels.dtype))(features, labels, wish)

    return for_any_batch
