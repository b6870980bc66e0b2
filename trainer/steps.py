"""The two steps that TensorFlow runs: an update and an evaluation. Made by the session, called by the loop."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from trainer import distributed

StepFunction = Callable[..., tf.Tensor]
Average = Callable[[list[tf.Tensor]], tuple[list[tf.Tensor], tf.Tensor]]  # tensors -> averaged ones, and the seconds


class Tally(NamedTuple):
    """The figures of an update for the loop, in one small tensor. `own_*` are of this rank's part of the batch."""

    own_loss: float
    own_accuracy: float
    loss: float  # over all ranks, like the two that follow
    accuracy: float
    wishes: float  # the share of the ranks that wish to stop
    allreduce_s: float


def make_train_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    statistics: Sequence[keras.Variable],
    *,
    average: Average = distributed.average_in_step,
) -> StepFunction:
    """A step: (features, labels, wish to stop) -> a tensor of the figures of `Tally`.

    The loss, the accuracy and the wish to stop travel with the gradients. So they cost no extra message, and all ranks
    learn of a wish at the same step. `statistics` travel with them too: the moving mean and variance that each rank's
    BatchNorm takes from its own part of the batch. Otherwise the ranks' weights would drift apart.
    """
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = model.trainable_variables

    @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
    def train_step(features: tf.Tensor, labels: tf.Tensor, wish: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(features, training=True)
            loss = loss_of(labels, logits) + _penalty(model)
            scaled_loss = optimizer.scale_loss(loss)  # as it is, except in mixed_float16
        gradients = tape.gradient(
            scaled_loss,
            [variable.value for variable in weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # of weights that an external network does not use
        )
        own_figures = tf.stack([loss, tf.reduce_mean(_hits(logits, labels))])
        # Read here, after the forward pass has assigned them: TensorFlow keeps the sequence of a variable's uses.
        moved = [tf.convert_to_tensor(variable.value) for variable in statistics]
        averaged, allreduce_s = average([*gradients, *moved, tf.concat([own_figures, [wish]], 0)])
        optimizer.apply(averaged[: len(weights)], weights)
        for variable, value in zip(statistics, averaged[len(weights) : -1], strict=True):
            variable.assign(value)
        return tf.concat([own_figures, averaged[-1], [allreduce_s]], 0)

    return train_step  # type: ignore[no-any-return]


def make_evaluation_step(model: keras.Model) -> StepFunction:
    """A step: (features, labels, weights) -> sums of loss, of hits and of weights on this rank."""
    losses_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
    def evaluation_step(features: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        logits = model(features, training=False)
        losses = losses_of(labels, logits) + _penalty(model)
        return tf.stack(
            [
                tf.reduce_sum(losses * weights),
                tf.reduce_sum(_hits(logits, labels) * weights),
                tf.reduce_sum(weights),
            ]
        )

    return evaluation_step  # type: ignore[no-any-return]


def _penalty(model: keras.Model) -> tf.Tensor:
    """What an external network adds to the loss, such as by regularizers. It is part of the loss, as in Keras's fit."""
    return tf.add_n([tf.zeros(()), *(tf.cast(loss, tf.float32) for loss in model.losses)])


def _hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels), tf.float32)
