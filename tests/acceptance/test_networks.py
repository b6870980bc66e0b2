"""Each network trains: its weights move where they should, and it can be saved and loaded."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.networks import DEEP, SMALL, equal, facts, images, spec, values
from trainer.errors import BadData
from trainer.models import build_model, moving_statistics


def train_step(model: keras.Model, samples: np.ndarray, *, rate: float = 0.001) -> float:
    labels = np.arange(len(samples)) % model.output_shape[-1]
    with tf.GradientTape() as tape:
        logits = model(samples, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        variable.assign_sub(rate * gradient)
    return float(loss)


def loads_again(model: keras.Model, pixels: np.ndarray, path: Path) -> None:
    """Fail if plain Keras does not load the network as it is, in another process."""
    model.save(path)
    keras.config.set_dtype_policy("float32")  # as in another process
    loaded = keras.models.load_model(path)  # noqa: TID251 - a file that the test wrote
    assert np.array_equal(loaded(pixels), model(pixels))
    assert len(loaded.trainable_variables) == len(model.trainable_variables)


@pytest.mark.parametrize("name", [*SMALL, *DEEP])
def test_a_small_network_trains_on_images_of_any_shape_and_is_loaded_by_keras(name: str, tmp_path: Path) -> None:
    for shape in ((1, 1, 1), (33, 20, 3)):
        model = build_model(spec({"name": name, "dropout": 0.5}, precision="mixed_bfloat16"), facts(*shape))
        pixels, before = images(3, *shape), values(model.trainable_variables)
        logits = model(pixels)
        assert logits.shape == (3, 10)
        assert logits.dtype == "float32"
        assert np.isfinite(train_step(model, pixels))
        assert not all(equal(values(model.trainable_variables), before))
    loads_again(model, pixels, tmp_path / "model.keras")


@pytest.mark.parametrize(
    ("name", "weights_of_the_base", "least"),
    [
        ("resnet50", 23_587_712, 32),
        ("xception", 20_861_480, 71),
        ("mobilenet_v2", 2_257_984, 32),
        ("efficientnet_v2_b0", 5_919_312, 32),
    ],
)
def test_a_large_network_trains_at_its_smallest_size_is_loaded_by_keras_and_refuses_smaller_images(
    name: str, weights_of_the_base: int, least: int, tmp_path: Path
) -> None:
    model = build_model(spec(name), facts(least, least, 3, classes=2))
    assert model.get_layer("base").count_params() == weights_of_the_base
    pixels = images(2, least, least, 3)
    # A larger step on two samples makes the random weights of EfficientNet huge, as it normalizes over two values.
    assert np.isfinite(train_step(model, pixels, rate=1e-9))
    loads_again(model, pixels, tmp_path / "model.keras")
    with pytest.raises(BadData, match=rf"dataset.image_size: {name} .* set it to at least \[{least}, {least}\]"):
        build_model(spec(name), facts(least, least - 1, 3))


def test_training_does_not_change_a_frozen_base_and_fine_tuning_updates_its_moving_statistics() -> None:
    model = build_model(spec({"name": "mobilenet_v2", "weights": "imagenet"}), facts(32, 32, 3, classes=2))
    base, head = model.get_layer("base"), model.get_layer("logits")
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):  # else a random base outputs almost zero
            layer.moving_variance.assign(np.full(layer.moving_variance.shape, 0.01))
    before, head_before, pixels = values(base.variables), values(head.variables), images(3, 32, 32, 3)
    for _ in range(2):
        train_step(model, pixels, rate=0.1)
    assert all(equal(values(base.variables), before))
    assert not any(equal(values(head.variables), head_before))
    assert [variable.path for variable in model.trainable_variables] == [variable.path for variable in head.variables]
    assert moving_statistics(model) == []
    assert np.array_equal(model(pixels, training=True), model(pixels, training=False))

    tuned = {"name": "mobilenet_v2", "weights": "imagenet", "freeze_base": False}
    model = build_model(spec(tuned), facts(32, 32, 3, classes=2))
    statistics = moving_statistics(model)
    assert {id(variable) for variable in statistics} == {id(variable) for variable in model.non_trainable_variables}
    before = values(statistics)
    train_step(model, pixels)
    assert not any(equal(values(statistics), before))
