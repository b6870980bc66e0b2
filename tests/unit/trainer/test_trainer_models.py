"""The networks: what they take, what they give, how large they are, what is trained of them."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from jobs.model.catalog import MODELS
from jobs.model.plan import DatasetSizes
from jobs.model.spec import Spec, spec_from
from trainer.data.interfaces import Facts, Normalization
from trainer.errors import BadData
from trainer.models import build_model, moving_statistics
from trainer.models.zoo import NETWORKS

SMALL = ["lenet5", "mlp", "alexnet", "convnet7", "chipnet"]
BASES = ["resnet50", "xception", "mobilenet_v2"]


def facts(*shape: int, classes: int = 10, **fields: Any) -> Facts:
    known: dict[str, Any] = {
        "format": "arrays",
        "shape": shape,
        "dtype": "uint8",
        "value_range": (0.0, 255.0),
        "normalization": None,
        "classes": tuple(map(str, range(classes))),
        "sizes": DatasetSizes(train=90, validation=10),
        "damaged": {},
    }
    return Facts(**(known | fields))


def table(columns: int, *, mean: float = 0.0, deviation: float = 1.0) -> Facts:
    normalization = Normalization((mean,) * columns, (deviation,) * columns)
    return facts(columns, classes=3, dtype="float32", value_range=None, normalization=normalization)


def spec(model: str | dict[str, Any], **fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "model": model, **fields})


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


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


def values(variables: list[Any]) -> list[np.ndarray]:
    return [variable.numpy().copy() for variable in variables]


def equal(some: list[np.ndarray], others: list[np.ndarray]) -> list[bool]:
    return [np.array_equal(a, b) for a, b in zip(some, others, strict=True)]


def test_the_catalog_lists_what_can_be_built() -> None:
    assert {name: (model.imagenet, model.tables, model.least_size) for name, model in MODELS.items()} == {
        name: (network.imagenet is not None, network.takes_tables, network.least_size)
        for name, network in NETWORKS.items()
    }


def test_the_page_lists_what_can_be_built() -> None:
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    _, _, below = page.partition("\n## Networks\n")
    table, _, _ = below.strip().partition("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    assert [(name.strip("`"), takes, int(least), imagenet) for name, takes, least, imagenet, _ in rows] == [
        (name, "images, tables" if model.tables else "images", model.least_size, "yes" if model.imagenet else "no")
        for name, model in MODELS.items()
    ]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(1, 1, 1), (28, 28, 1), (33, 20, 3)])
def test_a_small_network_trains_on_every_image(name: str, shape: tuple[int, int, int]) -> None:
    model = build_model(spec({"name": name, "dropout": 0.5}), facts(*shape))
    pixels, before = images(3, *shape), values(model.trainable_variables)
    logits = model(pixels)
    assert logits.shape == (3, 10)
    assert logits.dtype == "float32"
    assert np.isfinite(train_step(model, pixels))
    assert not all(equal(values(model.trainable_variables), before))


@pytest.mark.parametrize(
    ("name", "weights_of_the_base", "least"),
    [("resnet50", 23_587_712, 32), ("xception", 20_861_480, 71), ("mobilenet_v2", 2_257_984, 32)],
)
def test_a_large_network_trains_from_its_least_size_on(name: str, weights_of_the_base: int, least: int) -> None:
    model = build_model(spec(name), facts(least, least, 3, classes=2))
    assert model.get_layer("base").count_params() == weights_of_the_base
    assert np.isfinite(train_step(model, images(2, least, least, 3)))
    with pytest.raises(BadData, match=rf"dataset.image_size: {name} .* set it to at least \[{least}, {least}\]"):
        build_model(spec(name), facts(least, least - 1, 3))


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("lenet5", (28, 28, 1), 10, 61_706),  # LeCun et al. 1998
        ("alexnet", (224, 224, 3), 1000, 62_378_344),  # Krizhevsky et al. 2012, in one column
        ("convnet7", (28, 28, 1), 10, 615_434),
        ("chipnet", (64, 64, 3), 2, 26_674),
        ("chipnet", (500, 500, 3), 2, 26_674),
    ],
)
def test_networks_have_the_size_they_are_known_for(
    name: str, shape: tuple[int, int, int], classes: int, count: int
) -> None:
    assert build_model(spec(name), facts(*shape, classes=classes)).count_params() == count


@pytest.mark.parametrize("shape", [(96, 96, 3), (128, 128, 1)])
def test_the_head_of_alexnet_sees_as_much_at_every_size(shape: tuple[int, int, int]) -> None:
    flat = build_model(spec("alexnet"), facts(*shape)).get_layer(index=-4).output
    assert flat.shape[1] in (6 * 6 * 256, 3 * 3 * 256)


def test_convnet7_has_seven_layers_with_weights() -> None:
    assert len([layer for layer in build_model(spec("convnet7"), facts(28, 28, 1)).layers if layer.weights]) == 7


def test_a_table_goes_into_an_mlp_only() -> None:
    model = build_model(spec("mlp"), table(4))
    assert model(np.zeros((5, 4), np.float32)).shape == (5, 3)
    with pytest.raises(BadData, match=r"model\.name: convnet7 takes images, and a sample here is 4 numbers: use mlp"):
        build_model(spec("convnet7"), table(4))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_columns_are_standardized_inside_in_single_precision(precision: str) -> None:
    # 1e6 is beyond half precision: a column that was cast before it is scaled would be infinite.
    model = build_model(spec("mlp", precision=precision), table(2, mean=1e6, deviation=2e5))
    assert model.layers[1](np.array([[1.2e6, 0.8e6]], np.float32)).numpy().tolist() == [[1.0, -1.0]]
    assert np.isfinite(model(np.array([[1.2e6, 0.8e6]], np.float32))).all()


def test_a_constant_column_is_not_blown_up() -> None:
    model = build_model(spec("mlp"), table(2, mean=0.1, deviation=0.0))
    assert model.layers[1](np.array([[0.1, 5.1]], np.float32)).numpy() == pytest.approx(np.array([[0, 5]]), abs=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0.0, 255.0), (-4.0, 12.0), (0.0, 65_535.0)])
def test_pixels_are_brought_to_minus_one_to_one_inside(low: float, high: float) -> None:
    model = build_model(spec("lenet5"), facts(8, 8, 1, dtype="float32", value_range=(low, high)))
    scaled = model.layers[1](np.array([low, (low + high) / 2, high], np.float32))
    assert scaled.numpy() == pytest.approx([-1, 0, 1], abs=1e-6)


def test_resnet50_sees_what_caffe_would_show_it() -> None:
    model = build_model(spec("resnet50"), facts(32, 32, 3))
    pixels = images(2, 32, 32, 3)
    seen = keras.Model(model.input, model.layers[-3].output)(pixels)
    expected = keras.applications.resnet50.preprocess_input(pixels.astype(np.float32))
    assert np.abs(seen.numpy() - expected).max() < 1e-3


def test_an_image_of_one_channel_is_repeated_for_a_base() -> None:
    model = build_model(spec("mobilenet_v2"), facts(32, 32, 1, classes=2))
    assert model.get_layer("base").input_shape == (None, 32, 32, 3)
    grey = images(2, 32, 32, 1)
    colour = build_model(spec("mobilenet_v2"), facts(32, 32, 3, classes=2))
    assert np.array_equal(model(grey), colour(np.repeat(grey, 3, axis=-1)))
    with pytest.raises(
        BadData, match=r"model\.name: mobilenet_v2 takes images of 1 or 3 channels, and those here have 4"
    ):
        build_model(spec("mobilenet_v2"), facts(32, 32, 4))


@pytest.mark.parametrize("name", ["lenet5", "mobilenet_v2"])
def test_the_seed_alone_decides_the_first_weights(name: str) -> None:
    first, second, other = (
        values(build_model(spec({"name": name, "dropout": 0.1}, seed=seed), facts(32, 32, 3)).variables)
        for seed in (1, 1, 2)
    )
    assert all(equal(first, second))
    assert not all(equal(first, other))


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_computes_in_halves_and_keeps_whole_weights(precision: str) -> None:
    model = build_model(spec("convnet7", precision=precision), facts(8, 8, 1))
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    assert model.layers[2].compute_dtype == precision.removeprefix("mixed_")
    assert model.output.dtype == "float32"


def test_a_frozen_base_stays_as_it_is_to_the_bit() -> None:
    model = build_model(spec({"name": "mobilenet_v2", "weights": "imagenet"}), facts(32, 32, 3, classes=2))
    base, head = model.get_layer("base"), model.get_layer("logits")
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):  # else next to nothing comes out of a drawn base
            layer.moving_variance.assign(np.full(layer.moving_variance.shape, 0.01))
    before, head_before, pixels = values(base.variables), values(head.variables), images(3, 32, 32, 3)
    for _ in range(2):
        train_step(model, pixels, rate=0.1)
    assert all(equal(values(base.variables), before))
    assert not any(equal(values(head.variables), head_before))
    assert [variable.path for variable in model.trainable_variables] == [variable.path for variable in head.variables]
    assert moving_statistics(model) == []
    assert np.array_equal(model(pixels, training=True), model(pixels, training=False))


@pytest.mark.parametrize(
    "fields", [{"weights": "none"}, {"weights": "imagenet", "freeze_base": False}], ids=["scratch", "fine-tuning"]
)
def test_a_base_that_is_trained_moves_its_statistics(fields: dict[str, Any]) -> None:
    model = build_model(spec({"name": "mobilenet_v2", **fields}), facts(32, 32, 3, classes=2))
    statistics = moving_statistics(model)
    assert {id(variable) for variable in statistics} == {id(variable) for variable in model.non_trainable_variables}
    before = values(statistics)
    train_step(model, images(4, 32, 32, 3))
    assert not any(equal(values(statistics), before))


@pytest.mark.parametrize("name", SMALL)
def test_freezing_a_small_network_leaves_its_head(name: str) -> None:
    frozen = build_model(spec({"name": name, "weights": "job:other"}), facts(8, 8, 1))
    assert [variable.path for variable in frozen.trainable_variables] == ["logits/kernel", "logits/bias"]
    scratch = build_model(spec({"name": name, "weights": "none"}), facts(8, 8, 1))
    assert scratch.trainable_variables == scratch.variables
    assert moving_statistics(scratch) == []


@pytest.mark.parametrize("name", [*SMALL, *BASES])
def test_plain_keras_loads_what_was_saved(name: str, tmp_path: Path) -> None:
    size = max(NETWORKS[name].least_size, 8)
    weights = "imagenet" if name == "resnet50" else "none"
    model = build_model(
        spec({"name": name, "dropout": 0.2, "weights": weights}, precision="mixed_bfloat16"), facts(size, size, 1)
    )
    pixels = images(2, size, size, 1)
    train_step(model, pixels)
    model.save(tmp_path / "model.keras")
    keras.config.set_dtype_policy("float32")  # as in another process
    loaded = keras.models.load_model(tmp_path / "model.keras")  # noqa: TID251 - a file that the test wrote
    assert np.array_equal(loaded(pixels), model(pixels))
    assert len(loaded.trainable_variables) == len(model.trainable_variables)


def test_an_unknown_model_is_bad_data() -> None:
    with pytest.raises(BadData, match="there is no model 'resnet51'; there are: lenet5, mlp, alexnet, convnet7"):
        build_model(spec("resnet51"), facts(8, 8, 1))
