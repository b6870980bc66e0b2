"""Training on several devices in one process: the strategy `mirrored`. Used by `trainer.trainable`.

TensorFlow calls it in-graph replication. A step is one graph. In it each device computes the gradients of its part of
the batch, `tf.distribute.MirroredStrategy` averages them, and each device updates its own copy of the network.

A copy is a `Replica`, with variables of its own, as a rank has. Keras's variables can be mirrored by the strategy
itself. But then a network with BatchNorm or dropout cannot accumulate or be compiled, and gradients are clipped before
they are averaged (docs/decisions/0049).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.steps import GradientFunction, StepFunction

Parts = NDArray[Any] | Sequence[tf.Tensor]  # an array for all devices, or the part of each, on it


def copied(array: NDArray[Any], device: str) -> tf.Tensor:
    """The array on a device."""
    with tf.device("CPU:0"):
        on_host = tf.convert_to_tensor(array)
    with tf.device(device):
        return tf.identity(on_host)


@dataclass(frozen=True)
class Replica:
    """The network and its optimizer on a device. All replicas have the same values after each step."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer


@dataclass(frozen=True)
class Mirrored:
    """The devices of a job, and TensorFlow's way to run on all of them and to average."""

    strategy: tf.distribute.MirroredStrategy
    devices: Sequence[str]

    @classmethod
    def on(cls, kind: Literal["gpu", "cpu"], count: int) -> "Mirrored":
        """The first devices of a kind. GPUs average as TensorFlow finds best: with NCCL, where it can."""
        devices = [f"{kind.upper()}:{number}" for number in range(count)]
        # Its collectives wait for each other in threads, of which a CPU has few.
        averages = tf.distribute.ReductionToOneDevice() if kind == "cpu" else None
        return cls(tf.distribute.MirroredStrategy(devices, cross_device_ops=averages), devices)

    def placed_parts(self, array: NDArray[Any]) -> list[tf.Tensor]:
        """The part of each device, copied to it."""
        return [copied(part, device) for part, device in zip(self._parts(array), self.devices, strict=True)]

    def _parts(self, array: Parts) -> Sequence[Any]:
        """The samples in equal parts, one after the other, as ranks have them."""
        return np.split(array, len(self.devices)) if isinstance(array, np.ndarray) else array

    def train_step(
        self,
        replicas: Sequence[Replica],
        gradients_of: Sequence[GradientFunction],
        statistics: Sequence[Sequence[keras.Variable]],
    ) -> StepFunction:
        """A step: (features, labels, wish to stop) -> a tensor of the figures of `Tally`. See `make_train_step`.

        What the averages take cannot be told apart within the graph, so `allreduce_s` is 0.
        """

        def averages(features: Sequence[tf.Tensor], labels: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], ...]:
            context = tf.distribute.get_replica_context()
            number = int(tf.get_static_value(context.replica_id_in_sync_group))
            gradients, figures = gradients_of[number](features[number], labels[number])
            moved = [tf.convert_to_tensor(variable.value) for variable in statistics[number]]
            averaged = context.all_reduce(tf.distribute.ReduceOp.MEAN, [*gradients, *moved, figures])
            return averaged[: len(gradients)], averaged[len(gradients) : -1], averaged[-1:]

        @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
        def step(features: Sequence[tf.Tensor], labels: Sequence[tf.Tensor], wish: tf.Tensor) -> tf.Tensor:
            everywhere = self.strategy.run(averages, args=(features, labels))
            gradients, moved, (figures,) = tf.nest.map_structure(self.strategy.experimental_local_results, everywhere)
            rate = replicas[0].optimizer.learning_rate  # the loop sets that one
            # Outside the strategy, where Keras's optimizers leave gradients as they are.
            for number, (device, replica) in enumerate(zip(self.devices, replicas, strict=True)):
                with tf.device(device):
                    if number:
                        replica.optimizer.learning_rate.assign(rate)
                    replica.optimizer.apply([of[number] for of in gradients], replica.model.trainable_variables)
                    for variable, of in zip(statistics[number], moved, strict=True):
                        variable.assign(of[number])
            return tf.concat([figures[0], figures[0], [wish, 0.0]], 0)

        return lambda features, labels, wish: step(self._parts(features), self._parts(labels), wish)

    def evaluation_step(self, steps: Sequence[StepFunction]) -> StepFunction:
        """A step: (features, labels, weights) -> the sums of what these steps give, one of each replica."""

        @tf.function(autograph=False, jit_compile=False)  # type: ignore[untyped-decorator]
        def evaluation_step(*arrays: Sequence[tf.Tensor]) -> tf.Tensor:
            sums = []
            for number, (device, step) in enumerate(zip(self.devices, steps, strict=True)):
                with tf.device(device):
                    sums.append(step(*(parts[number] for parts in arrays)))
            return tf.add_n(sums)

        return lambda *arrays: evaluation_step(*map(self._parts, arrays))

    def build(self, make: Callable[[], Replica]) -> list[Replica]:
        """A replica on each device. `make` gives each of them the same weights."""
        replicas = []
        for device in self.devices:
            with tf.device(device):
                replicas.append(make())
        return replicas


def equalize(replicas: Sequence[Replica]) -> None:
    """Give all replicas the values of the first one."""
    first, *others = [[*replica.model.variables, *replica.optimizer.variables] for replica in replicas]
    for variables in others:
        for variable, value in zip(variables, first, strict=True):
            variable.assign(value.value)
