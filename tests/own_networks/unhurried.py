"""A network that sleeps at each step: its job trains for long and leaves the cores to other tests.

`tests.unhurried` says how a stack may train it.
"""

import time
from typing import Any

import tensorflow as tf
from keras import Model, layers, saving

PAUSE_S = 0.01


@saving.register_keras_serializable("tests")
class Pause(layers.Layer):
    """Gives back what it gets, after a pause."""

    def call(self, inputs: Any) -> Any:
        with tf.control_dependencies([tf.numpy_function(_pause, [], tf.int64)]):
            return tf.identity(inputs)


def _pause() -> int:
    time.sleep(PAUSE_S)
    return 0


def build(shape: tuple[int, ...], outputs: int) -> Model:
    """A network of the smallest size for samples of that shape."""
    inputs = layers.Input(shape)
    return Model(inputs, layers.Dense(outputs)(Pause()(layers.Flatten()(inputs))))
