"""What a job leaves, as those read it for whom it is meant: plain Keras, TensorBoard, people."""

import json
import os
from pathlib import Path

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tests.unit.trainer.made_up import epoch
from trainer.artifacts import TensorBoard, add_test, save_classes, save_network


def test_plain_keras_loads_the_network(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()])
    save_network(model, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["model.keras", "model.weights.h5"]
    loaded = keras.models.load_model(tmp_path / "model.keras")  # noqa: TID251 - a file of our own
    samples = np.ones((2, 4), np.float32)
    assert loaded.predict(samples, verbose=0).tolist() == model.predict(samples, verbose=0).tolist()
    assert not loaded.compiled


class Odd(keras.layers.Layer):
    """Cannot be saved: Keras cannot know what it was made with."""

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


def test_the_names_of_the_classes_are_in_the_order_of_the_outputs(tmp_path: Path) -> None:
    save_classes(("zebra", "Bär"), tmp_path)
    text = (tmp_path / "classes.json").read_text("utf-8")
    assert json.loads(text) == ["zebra", "Bär"]
    assert "Bär" in text


def metrics(loss: float) -> dict[str, float]:
    return {"loss": loss, "accuracy": 0.5, "val_loss": loss + 1, "val_accuracy": 0.25}


def points(folder: Path, tag: str) -> list[tuple[int, float]]:
    """A series as TensorBoard shows it."""
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, float(event.tensor_proto.float_val[0])) for event in events.Tensors(tag)]


def test_tensorboard_shows_each_epoch_once_whatever_attempts_wrote(tmp_path: Path) -> None:
    first = TensorBoard(tmp_path, lambda: 0.5, first_epoch=1)
    for number in (1, 2, 3):
        first.on_epoch_end(epoch(number, metrics(loss=9.0)))
    assert points(tmp_path / "train", "epoch_loss") == [(1, 9.0), (2, 9.0), (3, 9.0)]  # while the run goes on
    second = TensorBoard(tmp_path, lambda: 0.25, first_epoch=2)  # epoch 1 was in the checkpoint
    second.on_epoch_end(epoch(2, metrics(loss=4.0)))
    assert points(tmp_path / "train", "epoch_loss") == [(1, 9.0), (2, 4.0)]
    assert points(tmp_path / "validation", "epoch_loss") == [(1, 10.0), (2, 5.0)]
    assert points(tmp_path / "train", "epoch_learning_rate") == [(1, 0.5), (2, 0.25)]
    assert points(tmp_path / "train", "samples_per_s") == [(1, 640.0), (2, 640.0)]


def test_the_test_has_a_run_of_its_own_and_one_point(tmp_path: Path) -> None:
    for loss in (3.0, 2.0):  # the second by a restart that came after the first
        add_test(tmp_path, 7, loss=loss, accuracy=0.5)
    assert points(tmp_path / "test", "epoch_loss") == [(7, 2.0)]
