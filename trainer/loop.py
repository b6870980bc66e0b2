"""The training loop. Called by the session once all is built and restored; the same on every rank.

It reads from top to bottom: `train`, an epoch, a step, a validation. Step time is host time: reading the tally of a
step waits for that step alone.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from jobs.plan import Plan
from jobs.spec import Spec
from trainer import distributed
from trainer.callbacks import Callback, Checkpointing, Epoch, Step
from trainer.checkpoint import Progress, State
from trainer.data.opening import Dataset
from trainer.data.parts import Batch, Part
from trainer.distributed import Ranks
from trainer.exits import Diverged, Outcome
from trainer.plan import steps_of
from trainer.stopping import StopWatch

_NO, _YES = np.zeros((), np.float32), np.ones((), np.float32)  # arrays: a tensor here would start TensorFlow


StepFunction = Callable[..., tf.Tensor]


def make_train_step(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> StepFunction:
    """A step: (pixels, labels, wish to stop) -> own loss, own accuracy, loss, accuracy and wish over all ranks.

    The loss, the accuracy and the wish to stop travel with the gradients: agreeing on them costs no message, and
    all ranks learn of a wish at the same step.
    """
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
    def train_step(pixels: tf.Tensor, labels: tf.Tensor, wish: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(pixels, training=True)
            loss = loss_of(labels, logits)
            scaled_loss = optimizer.scale_loss(loss)  # as it is, except in mixed_float16
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        own = tf.stack([loss, tf.reduce_mean(_hits(logits, labels))])
        *gradients, over_all = distributed.average_in_step([*gradients, tf.concat([own, [wish]], 0)])
        optimizer.apply(gradients, model.trainable_variables)
        return tf.concat([own, over_all], 0)

    return train_step  # type: ignore[no-any-return]


def make_evaluation_step(model: keras.Model) -> StepFunction:
    """A step: (pixels, labels, weights) -> sums of loss, of hits and of weights on this rank."""
    losses_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
    def evaluation_step(pixels: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        logits = model(pixels, training=False)
        return tf.stack(
            [
                tf.reduce_sum(losses_of(labels, logits) * weights),
                tf.reduce_sum(_hits(logits, labels) * weights),
                tf.reduce_sum(weights),
            ]
        )

    return evaluation_step  # type: ignore[no-any-return]


def _hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels), tf.float32)


@dataclass
class Loop:
    """A training run between two points in time: from where `state` says to the end, or to a stop."""

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
    _made_first_step: bool = field(default=False, init=False)
    _timed_since: float = field(default=0.0, init=False)
    _batches: Iterator[Batch] = field(default_factory=lambda: iter(()), init=False)  # one stream over all epochs

    def train(self) -> Outcome:
        """Train until the epochs are over, early stopping says so, or the ranks agreed to stop."""
        self._timed_since = time.perf_counter()
        self._batches = self.dataset.train_batches(
            self.spec, self.plan, rank=self.ranks.rank, epoch=self.progress.epoch, first=self.progress.epoch_step
        )
        while not self.is_over():
            stop = not self._train_epoch() or self._end_epoch()
            if stop and not self.is_over():
                self._measure_wall()
                self.checkpointing.save()
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
        for batch in part.evaluate(rank=ranks.rank, ranks=ranks.size, per_rank=per_rank):
            values = self.evaluation_step(*batch).numpy().tolist()
            sums = [total + value for total, value in zip(sums, values, strict=True)]
        loss, hits, samples, wishes = distributed.sum_over_ranks([*sums, float(self.watch.requested.is_set())])
        return loss / samples, hits / samples, wishes > 0

    def _train_epoch(self) -> bool:
        """Train to the end of the epoch; False when the ranks agreed to stop before it."""
        progress = self.progress
        ended = time.perf_counter()
        while progress.epoch_step < steps_of(self.plan)[0]:
            asked = time.perf_counter()
            batch = next(self._batches)
            data_wait_s = time.perf_counter() - asked
            for callback in self.callbacks:
                callback.on_step_begin(progress.step)
            wish = _YES if self.watch.requested.is_set() else _NO
            tally = self.train_step(batch.features, batch.labels, wish)
            own_loss, own_accuracy, loss, accuracy, wishes = tally.numpy().tolist()
            before, ended = ended, time.perf_counter()
            self._count(loss, accuracy, ended - before)
            step = Step(
                step=progress.step,
                epoch=progress.epoch,
                step_time_s=ended - before,
                data_wait_s=data_wait_s,
                allreduce_s=0.0,
                metrics={"loss": own_loss, "accuracy": own_accuracy},
            )
            for callback in self.callbacks:
                callback.on_step_end(step)
            if not self._made_first_step:
                ended = self._end_first_step()
            if wishes > 0:
                return False
        return True

    def _count(self, loss: float, accuracy: float, step_time_s: float) -> None:
        progress = self.progress
        progress.step += 1
        progress.epoch_step += 1
        if not math.isfinite(loss):  # the average over all ranks, so that all leave here together
            place = f"step {progress.step} (epoch {progress.epoch})"
            raise Diverged(f"the loss is {loss} at {place}: try a lower learning rate")
        progress.loss_sum += loss
        progress.accuracy_sum += accuracy
        if self._made_first_step:
            progress.epoch_timed_samples += self.plan.global_batch
            progress.epoch_train_s += step_time_s

    def _end_first_step(self) -> float:
        """Close the set-up, the first update being part of it; the time from which the run is measured."""
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
        """Validate, tell the callbacks, move on; True when the ranks agreed to stop."""
        progress, steps = self.progress, self.progress.epoch_step
        self.flush()
        started = time.perf_counter()
        val_loss, val_accuracy, wish = self.evaluate(self.dataset.validation)
        epoch = Epoch(
            epoch=progress.epoch,
            step=progress.step,
            wall_s=progress.epoch_train_s + time.perf_counter() - started,
            samples_per_s=progress.epoch_timed_samples / progress.epoch_train_s if progress.epoch_train_s else 0.0,
            metrics={
                "loss": progress.loss_sum / steps,
                "accuracy": progress.accuracy_sum / steps,
                "val_loss": val_loss,
                "val_accuracy": val_accuracy,
            },
            is_last=progress.epoch == self.plan.epochs,
        )
        progress.begin_next_epoch()
        self._measure_wall()
        for callback in self.callbacks:
            callback.on_epoch_end(epoch)
        return wish
