"""The artifacts of a job, as plain Keras and people read them."""

import os
from pathlib import Path

import keras
import pytest

from trainer.artifacts import save_network


class Odd(keras.layers.Layer):
    """A layer that Keras cannot save, because it has no config of its argument."""

    def __init__(self, made_with: object) -> None:
        super().__init__()
        self.made_with = made_with

    def call(self, inputs: object) -> object:
        return inputs


def test_a_network_that_keras_cannot_save_leaves_its_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_network(keras.Sequential([keras.Input((4,)), Odd(object()), keras.layers.Dense(3)]), tmp_path)
    assert os.listdir(tmp_path) == ["model.weights.h5"]
    assert "there is no model.keras" in capsys.readouterr().out
