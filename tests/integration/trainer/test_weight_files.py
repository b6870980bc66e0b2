"""Weights from files that Keras wrote: every format gives the same network, and a hostile file gives nothing.

The networks have random values, so nothing is downloaded.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras import layers
from keras.src.legacy.saving import legacy_h5_format

from tests.networks import facts, images
from tests.weights import all_equal, launch, spec, values
from trainer.models import build_model, load_initial_weights

applications = keras.applications


def with_random_values(model: keras.Model) -> keras.Model:
    """Give normalizations values of their own: any two that are swapped are then seen."""
    generator = np.random.default_rng(7)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights([generator.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    return model


@pytest.fixture(scope="module")
def mobilenet_v2() -> keras.Model:
    return with_random_values(applications.MobileNetV2(include_top=False, weights=None, input_shape=(32, 32, 3)))


@pytest.fixture(scope="module")
def target() -> keras.Model:
    """The network of a job that gets weights."""
    return build_model(spec("mobilenet_v2"), facts(32, 32, 3))


@pytest.fixture(autouse=True)
def _remove_large_files(tmp_path: Path) -> Iterator[None]:
    yield
    for file in tmp_path.iterdir():  # Xception has 84 MB
        file.unlink()


def whole(base: keras.Model, *, classes: int) -> keras.Model:
    """A whole application with the weights of a base, as `include_top=True` gives it."""
    model = applications.MobileNetV2(weights=None, classes=classes)
    for layer in base.layers[1:]:
        model.get_layer(layer.name).set_weights(layer.get_weights())
    return model


def flat(base: keras.Model, *, classes: int) -> keras.Model:
    """The same without an inner network: the layers of the base are those of the network."""
    pooled = layers.GlobalAveragePooling2D()(base.output)
    return keras.Model(base.input, layers.Dense(classes, activation="softmax")(pooled))


def nested(base: keras.Model) -> keras.Model:
    """A base in a network in a network."""
    samples = keras.Input((32, 32, 3))
    return keras.Model(samples, on_base(base, classes=3)(layers.Rescaling(2.0)(samples)))


def save_hora(base: keras.Model, path: Path) -> None:
    """As a job leaves it that has other classes, and grey images of another size."""
    model = build_model(spec("mobilenet_v2"), facts(40, 32, 1, classes=4))
    model.get_layer("base").set_weights(base.get_weights())
    model.save_weights(path)


def save_legacy(model: keras.Model, path: Path) -> None:
    """As `save_weights` of Keras 2."""
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)


def save_legacy_network(model: keras.Model, path: Path) -> None:
    """As `save` of Keras 2."""
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_model_to_hdf5(model, file)


def save_by_former_names(base: keras.Model, path: Path) -> None:
    """As ResNet-50 was published until 2019: other names, and the shortcut after the third convolution."""

    def former(name: str) -> str:
        stem, *parts = name.split("_")
        if stem == "conv1":
            return "conv1" if parts == ["conv"] else "bn_conv1"
        block, branch, kind = parts
        branch = {"0": "1", "1": "2a", "2": "2b", "3": "2c"}[branch]
        letter = "abcdef"[int(block.removeprefix("block")) - 1]
        return f"{'res' if kind == 'conv' else 'bn'}{stem.removeprefix('conv')}{letter}_branch{branch}"

    by_name = {former(layer.name): layer for layer in base.layers if layer.weights}
    names = [*list(by_name)[:2], *sorted(list(by_name)[2:], key=lambda name: (name[-11:-8], name.endswith("branch1")))]
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [name.encode() for name in names]
        for name in names:
            group = file.create_group(name)
            values = {f"{name}_1/{weight.name}:0": weight.numpy() for weight in by_name[name].weights}
            group.attrs["weight_names"] = [array.encode() for array in values]
            for array, value in values.items():
                group[array] = value


def matched(model: keras.Model, folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Load a file, and give what the log says of it."""
    asked = spec(model.name, name)
    load_initial_weights(model, asked, launch(folder, asked))
    start, _, text = capsys.readouterr().out.strip().partition(": ")
    assert start == f"starting from the weights of {name}"
    return text


def assert_features_of(base: keras.Model, model: keras.Model, prepare: Callable[[np.ndarray], np.ndarray]) -> None:
    """The network gives the features of a base of Keras, for which images have to be prepared."""
    pixels = images(4, 32, 32, 3)
    expected = base(prepare(pixels.astype(np.float32))).numpy().mean(axis=(1, 2))
    features = keras.Model(model.input, model.get_layer("logits").input)(pixels)
    assert np.abs(features - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_file_of_2017_gives_a_frozen_resnet50_the_features_of_keras(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = with_random_values(applications.ResNet50(include_top=False, weights=None, input_shape=(32, 32, 3)))
    save_by_former_names(base, tmp_path / "resnet50_2017.h5")
    model = build_model(spec("resnet50", "given.h5"), facts(32, 32, 3))
    text = "106 of 106 layers of resnet50 by former name; the head is new"
    assert matched(model, tmp_path, "resnet50_2017.h5", capsys) == text
    assert_features_of(base, model, applications.resnet50.preprocess_input)


def on_base(base: keras.Model, *, classes: int, neck: bool = False) -> keras.Model:
    """What a person builds: a base, pooling, and a head; with `neck` a further dense layer."""
    more = [layers.Dense(64, activation="relu", name="neck")] if neck else []
    parts = [base, layers.GlobalAveragePooling2D(), *more, layers.Dense(classes, name="mine")]
    return keras.Sequential([keras.Input(base.input_shape[1:]), *parts])


MOBILENET_V2: dict[str, tuple[str, Callable[[keras.Model, Path], None], str]] = {
    "hora": ("model.weights.h5", save_hora, "the head is new (4 outputs there, 10 here)"),
    "keras file with a further layer": (
        "mine.keras",
        lambda base, path: on_base(base, classes=7, neck=True).save(path),
        "the head is new; not taken: neck, (1280, 64), mine, (64, 7)",
    ),
    "keras 2, layers on a base": (
        "network.hdf5",
        lambda base, path: save_legacy_network(on_base(base, classes=10), path),
        "the head too",
    ),
    "keras file of an application for as many classes": (
        "top.keras",
        lambda base, path: whole(base, classes=10).save(path),
        "the head too",
    ),
    "keras file without an inner network": (
        "flat.keras",
        lambda base, path: flat(base, classes=5).save(path),
        "the head is new (5 outputs there, 10 here)",
    ),
    "keras file with two levels": (
        "nested.keras",
        lambda base, path: nested(base).save(path),
        "the head is new (3 outputs there, 10 here)",
    ),
}


@pytest.mark.parametrize("kind", MOBILENET_V2)
def test_a_base_is_found_in_every_network_around_it(
    kind: str, mobilenet_v2: keras.Model, target: keras.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, save, head = MOBILENET_V2[kind]
    save(mobilenet_v2, tmp_path / name)
    target.set_weights([np.zeros(weight.shape) for weight in target.weights])
    assert matched(target, tmp_path, name, capsys) == f"104 of 104 layers of mobilenet_v2 by name; {head}"
    assert all_equal(target.get_layer("base"), mobilenet_v2)
    assert values(target)[-2].any() == (head == "the head too")


def test_layers_with_automatic_names_are_matched_by_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = with_random_values(applications.Xception(include_top=False, weights=None, input_shape=(71, 71, 3)))
    base.save_weights(tmp_path / "keras-3.weights.h5")
    save_legacy(on_base(base, classes=3), tmp_path / "keras-2.weights.h5")
    model = build_model(spec("xception"), facts(71, 71, 3))
    for name, head in (("keras-3", ""), ("keras-2", " (3 outputs there, 10 here)")):
        text = f"80 of 80 layers of xception: 72 by name, 8 by order; the head is new{head}"
        model.set_weights([np.zeros(weight.shape) for weight in model.weights])
        assert matched(model, tmp_path, f"{name}.weights.h5", capsys) == text
        assert all_equal(model.get_layer("base"), base)


def test_an_efficientnet_gives_the_features_of_keras_with_its_own_preprocessing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = with_random_values(applications.EfficientNetV2B0(include_top=False, weights=None, input_shape=(32, 32, 3)))
    save_legacy(base, tmp_path / "notop.h5")
    model = build_model(spec("efficientnet_v2_b0", "given.h5"), facts(32, 32, 3))
    text = "150 of 150 layers of efficientnet_v2_b0 by name; the head is new"
    assert matched(model, tmp_path, "notop.h5", capsys) == text
    assert_features_of(base, model, np.asarray)
