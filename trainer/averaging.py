"""The collectives inside a training step: the averages over all ranks. Used by `trainer.steps` and the probe.

Gradients travel in buckets. A bucket depends on its own gradients alone, so TensorFlow sends it as soon as they are
computed, while the backward pass goes on. Horovod may join buckets that are ready at the same time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

import horovod.tensorflow as hvd
import tensorflow as tf

from trainer.buckets import buckets_of

Exchange = Callable[[list[tf.Tensor], str], list[tf.Tensor]]  # tensors of one message, its name -> averaged tensors

_MB = 1e6


class Averaged(NamedTuple):
    """Gradients and figures over all ranks, and the seconds from the last own gradient to the last average."""

    gradients: list[tf.Tensor]
    figures: list[tf.Tensor]
    allreduce_s: tf.Tensor


def over_ranks(tensors: list[tf.Tensor], name: str) -> list[tf.Tensor]:
    """The tensors averaged over all ranks, as one message: one negotiation and one ring pass."""
    return hvd.grouped_allreduce(tensors, op=hvd.Average, name=name)  # type: ignore[no-any-return]


def on_this_rank(tensors: list[tf.Tensor], _name: str) -> list[tf.Tensor]:
    """Replaces `over_ranks` in a step that this rank makes alone. The results take as much memory."""
    return [tf.identity(tensor) for tensor in tensors]


@dataclass(frozen=True)
class Averaging:
    """Averages the gradients and the figures of a step over all ranks, inside a tf.function."""

    bucket_mb: float | None = None  # of a message; None: all in one
    compression: Literal["none", "fp16"] = "none"
    exchange: Exchange = over_ranks

    def __call__(self, gradients: list[tf.Tensor], figures: list[tf.Tensor]) -> Averaged:
        """Average both. `figures` are float32, known before the first gradient, and never compressed."""
        if hvd.size() == 1:
            return Averaged(gradients, figures, tf.zeros(()))
        return self.in_messages(gradients, figures)

    def in_messages(self, gradients: list[tf.Tensor], figures: list[tf.Tensor]) -> Averaged:
        """Average both, whatever the number of ranks.

        Nothing waits for the two clocks except the figure made of them, so they hold no message back. On a GPU a
        gradient can count as ready when its computation is enqueued. Then the seconds include the rest of the backward
        pass.
        """
        sent = [*(self._compressed(gradient) for gradient in gradients), *figures]
        averaged = list(sent)
        for number, positions in enumerate(self._messages(sent, len(gradients))):
            averages = self.exchange([sent[position] for position in positions], f"step.{number}")
            for position, average in zip(positions, averages, strict=True):
                averaged[position] = average
        ready_at = _clock(after=gradients)
        averaged_at = _clock(after=[*averaged, ready_at])
        whole = [tf.cast(average, gradient.dtype) for gradient, average in zip(gradients, averaged, strict=False)]
        return Averaged(whole, averaged[len(gradients) :], tf.cast(averaged_at - ready_at, tf.float32))

    def _messages(self, sent: Sequence[tf.Tensor], gradients: int) -> list[list[int]]:
        """The positions of the tensors in each message: `gradients` of them, and after those the figures.

        The figures travel in the first message, as they are ready before it. A message has one type, so compressed
        gradients leave them one of their own.
        """
        sizes_bytes = [prod(tensor.shape) * tensor.dtype.size for tensor in sent[:gradients]]
        buckets = buckets_of(sizes_bytes, None if self.bucket_mb is None else self.bucket_mb * _MB)
        figures = list(range(gradients, len(sent)))
        if buckets and all(sent[position].dtype == sent[-1].dtype for position in buckets[0]):
            return [[*buckets[0], *figures], *buckets[1:]]
        return [figures, *buckets]

    def _compressed(self, gradient: tf.Tensor) -> tf.Tensor:
        """As Horovod's `Compression.fp16`. What is too large becomes infinite, on every rank after the average."""
        return tf.cast(gradient, tf.float16) if self.compression == "fp16" else gradient


def _clock(*, after: list[tf.Tensor]) -> tf.Tensor:
    """Seconds of a steady clock, when these tensors are ready. TensorFlow's own op refuses to run deterministically.

    The clock is on the host. The group is where the tensors are, so that not each of them has to tell the host.
    """
    with tf.control_dependencies([tf.group(*after)]):
        return tf.numpy_function(time.perf_counter, [], tf.float64)
