"""The two steps that TensorFlow runs: an update and an evaluation. Made by the session, called by the loop."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainer.averaging import Averaged
from trainer.data.interfaces import Batch
from trainer.errors import BadData
from trainer.losses import Loss
from trainer.measures import Classification, Measures

StepFunction = Callable[..., tf.Tensor]
GradientFunction = Callable[[tf.Tensor, tf.Tensor], tuple[list[tf.Tensor], tf.Tensor]]
Average = Callable[[list[tf.Tensor], list[tf.Tensor]], Averaged]  # gradients, figures

_UNKNOWN_TO_XLA = re.compile(r"(\w+) \(No registered")  # in TensorFlow's message


_CLASSIFICATION = Classification(classes=3)  # with no further metrics


@dataclass(frozen=True)
class Tally:
    """The figures of an update for the loop, in one small tensor: the loss, then those of the task's measures."""

    own_figures: Sequence[float]  # of this rank's part of the batch
    figures: Sequence[float]  # means over all ranks
    wishes: float  # the share of the ranks that wish to stop
    allreduce_s: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Tally":
        """Of the values of the tensor."""
        *figures, wishes, allreduce_s = values
        half = len(figures) // 2
        return cls(figures[:half], figures[half:], wishes, allreduce_s)


def make_gradients(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    *,
    measures: Measures = _CLASSIFICATION,
    loss_of: Loss | None = None,
    jit: bool = False,
) -> GradientFunction:
    """A function: (features, labels) -> the gradients of the trainable weights, and this rank's loss and figures.

    `loss_of` is the loss of training, by default that of the evaluation. Labels are as `Labels` or, of mixed samples,
    float32 (sample, class); the step is traced once for each kind. With `jit` XLA compiles it, and all its results are
    ready at the same time. It changes what a forward pass changes: the moving statistics of BatchNorm, and the states
    of random generators.
    """
    weights, loss_of = model.trainable_variables, loss_of or measures.loss_of

    def gradients_of(features: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = model(features, training=True)
            loss = tf.reduce_mean(loss_of(labels, outputs)) + _penalty(model)
            scaled_loss = optimizer.scale_loss(loss)  # as it is, except in mixed_float16
        gradients = tape.gradient(
            scaled_loss,
            [variable.value for variable in weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # of weights that an external network does not use
        )
        figures = tf.concat([loss[tf.newaxis], measures.step_figures(labels, outputs)], 0)
        return list(map(_dense, gradients, weights)), figures

    if not jit:
        return gradients_of  # no function of TensorFlow: as a call in a graph, it could give all results at its end
    return tf.function(gradients_of, autograph=False, jit_compile=True)  # type: ignore[no-any-return]


def accumulated(
    gradients_of: GradientFunction, model: keras.Model, *, batches: int, figures: int = _CLASSIFICATION.figures
) -> GradientFunction:
    """A function as `make_gradients` makes, for the samples of several equal batches. Its results are their mean.

    The batches run one after the other, in the sequence of the samples, so that the memory holds what one of them
    needs. A batch norm takes its statistics from one batch at a time.
    """
    if batches == 1:
        return gradients_of
    weights = model.trainable_variables

    def gradients_of_all(features: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        by_batch = [tf.reshape(array, (batches, -1, *array.shape[1:])) for array in (features, labels)]

        def add(number: tf.Tensor, sums: list[tf.Tensor], sum_of_figures: tf.Tensor) -> Any:
            gradients, own_figures = gradients_of(*(array[number] for array in by_batch))
            added = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
            return number + 1, added, sum_of_figures + own_figures

        start = (0, [tf.zeros(weight.shape, weight.dtype) for weight in weights], tf.zeros(figures))
        # A loop of the graph: batches that it lists one by one could run at the same time.
        _, sums, sum_of_figures = tf.while_loop(
            lambda number, *_: number < batches, add, start, parallel_iterations=1, maximum_iterations=batches
        )
        return [total / batches for total in sums], sum_of_figures / batches

    return gradients_of_all


def check_compiles(gradients_of: GradientFunction, batch: Batch) -> None:
    """Raise `BadData` if XLA cannot compile the gradients of such a batch. It computes nothing."""
    features, labels = map(tf.convert_to_tensor, batch)
    gradients_of.get_concrete_function(features, labels)  # type: ignore[attr-defined]  # errors of the network itself
    try:
        gradients_of.experimental_get_compiler_ir(features, labels)()  # type: ignore[attr-defined]
    except (ValueError, tf.errors.OpError) as error:
        operations = sorted(set(_UNKNOWN_TO_XLA.findall(str(error))))
        first_line = str(error).partition("\n")[0].removeprefix("Failed getting HLO text: '")
        why = f"it has no {', '.join(operations)}" if operations else first_line.rstrip(".'")
        raise BadData(f"jit: XLA cannot compile this network: {why}; set jit to false") from error


def make_train_step(
    gradients_of: GradientFunction,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    statistics: Sequence[keras.Variable],
    *,
    average: Average,
) -> StepFunction:
    """A step: (features, labels, wish to stop) -> a tensor of the figures of `Tally`.

    The figures and the wish to stop travel with the gradients. So they cost no extra message, and all ranks
    learn of a wish at the same step. `statistics` travel with them too: the moving mean and variance that each rank's
    BatchNorm takes from its own part of the batch. Otherwise the ranks' weights would drift apart.
    """
    weights = model.trainable_variables

    @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
    def train_step(features: tf.Tensor, labels: tf.Tensor, wish: tf.Tensor) -> tf.Tensor:
        gradients, own_figures = gradients_of(features, labels)
        # Read here, after the forward pass has assigned them: TensorFlow keeps the sequence of a variable's uses.
        moved = [tf.convert_to_tensor(variable.value) for variable in statistics]
        averaged = average(gradients, [*moved, tf.concat([own_figures, [wish]], 0)])
        optimizer.apply(averaged.gradients, weights)
        *moved, figures = averaged.figures
        for variable, value in zip(statistics, moved, strict=True):
            variable.assign(value)
        return tf.concat([own_figures, figures, [averaged.allreduce_s]], 0)

    return train_step  # type: ignore[no-any-return]


def make_evaluation_step(
    model: keras.Model, *, measures: Measures = _CLASSIFICATION, jit: bool = False
) -> StepFunction:
    """A step: (features, labels, weights) -> the sums of `Measures.sums` on this rank."""

    @tf.function(autograph=False, jit_compile=jit)  # type: ignore[untyped-decorator]
    def evaluation_step(features: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        outputs = model(features, training=False)
        losses = measures.loss_of(labels, outputs) + _penalty(model)
        return measures.sums(labels, outputs, losses, weights)

    return evaluation_step  # type: ignore[no-any-return]


def _dense(gradient: tf.Tensor | tf.IndexedSlices, weight: keras.Variable) -> tf.Tensor:
    """The gradient with its shape known, whatever the layer: that of an embedding names the rows it is of."""
    dense = tf.convert_to_tensor(gradient)
    dense.set_shape(weight.shape)
    return dense


def _penalty(model: keras.Model) -> tf.Tensor:
    """What an external network adds to the loss, such as by regularizers. It is part of the loss, as in Keras's fit."""
    return tf.add_n([tf.zeros(()), *(tf.cast(loss, tf.float32) for loss in model.losses)])
