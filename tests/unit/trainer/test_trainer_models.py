"""The networks: their inputs, outputs, sizes and trainable weights."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

from jobs.model.catalog import MODELS, Model
from tests.networks import equal, facts, images, spec, values
from trainer.artifacts import save_network
from trainer.data.interfaces import Facts, Normalization
from trainer.errors import BadData
from trainer.models import build_model, moving_statistics
from trainer.models.zoo import NETWORKS, TEXT_NETWORKS


def table(columns: int, *, mean: float = 0.0, deviation: float = 1.0) -> Facts:
    normalization = Normalization((mean,) * columns, (deviation,) * columns)
    return facts(columns, classes=3, dtype="float32", value_range=None, normalization=normalization)


def test_catalog_lists_the_networks_that_can_be_built() -> None:
    others = {name: model for name, model in MODELS.items() if not model.texts}
    assert {name: (model.imagenet, model.tables, model.least_size) for name, model in others.items()} == {
        name: (network.imagenet is not None, network.takes_tables, network.least_size)
        for name, network in NETWORKS.items()
    }
    assert MODELS.keys() - others.keys() == TEXT_NETWORKS.keys()


def _takes(model: Model) -> str:
    return "texts" if model.texts else "images, tables" if model.tables else "images"


def test_docs_list_the_networks_that_can_be_built() -> None:
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    _, _, below = page.partition("\n## Networks\n")
    table, _, _ = below.strip().partition("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    assert [(name.strip("`"), takes, int(least), imagenet) for name, takes, least, imagenet, _ in rows] == [
        (name, _takes(model), model.least_size, "yes" if model.imagenet else "no") for name, model in MODELS.items()
    ]


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("lenet5", (28, 28, 1), 10, 61_706),  # LeCun et al. 1998
        ("alexnet", (224, 224, 3), 1000, 62_378_344),  # Krizhevsky et al. 2012, in one column
        ("convnet7", (28, 28, 1), 10, 615_434),
        ("chipnet", (64, 64, 3), 2, 26_674),
        ("chipnet", (500, 500, 3), 2, 26_674),
        ("resnet20", (32, 32, 3), 10, 269_722 + 1376),  # He et al. 2015, and the statistics of the batches
        ("resnet56", (32, 32, 3), 10, 853_018 + 4064),
        ("vit_tiny", (224, 224, 3), 1000, 5_716_840),  # Touvron et al. 2020, without the class token
    ],
)
def test_networks_have_the_expected_number_of_parameters(
    name: str, shape: tuple[int, int, int], classes: int, count: int
) -> None:
    assert build_model(spec(name), facts(*shape, classes=classes)).count_params() == count


def test_a_shortcut_of_resnet20_is_the_image_itself_beside_zeros() -> None:
    model = build_model(spec("resnet20"), facts(32, 32, 3))
    shortcut, branch = model.get_layer("stage2_block1_add").input
    pixels = images(2, 32, 32, 3)
    before, after, added = keras.Model(model.input, [model.get_layer("stage1_block3_relu").output, shortcut, branch])(
        pixels
    )
    assert after.shape == added.shape == (2, 16, 16, 32)
    assert np.array_equal(after[..., 8:24], before[:, ::2, ::2])
    assert not np.any(np.delete(after, range(8, 24), axis=-1))


def test_vit_tiny_sees_patches_of_neighbouring_pixels() -> None:
    model = build_model(spec("vit_tiny"), facts(30, 33, 1, value_range=(0.0, 1.0), dtype="float32"))
    pixels = np.arange(30 * 33, dtype=np.float32).reshape(1, 30, 33, 1)
    patches = keras.Model(model.input, model.get_layer("patches").output)(pixels).numpy()
    assert patches.shape == (1, 8 * 9, 16)
    second = (patches[0, 10].reshape(4, 4) + 1) / 2  # pixels were scaled to -1..1
    assert second == pytest.approx(pixels[0, 4:8, 4:8, 0], abs=1e-3)
    assert patches[0, 8].reshape(4, 4)[:, 1:].tolist() == [[0.0] * 3] * 4  # beyond the last column


def test_mlp_takes_a_table_and_convnet7_refuses_it() -> None:
    model = build_model(spec("mlp"), table(4))
    assert model(np.zeros((5, 4), np.float32)).shape == (5, 3)
    with pytest.raises(BadData, match=r"model\.name: convnet7 takes images, and a sample here is 4 numbers: use mlp"):
        build_model(spec("convnet7"), table(4))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_columns_are_standardized_inside_the_network_in_single_precision(precision: str) -> None:
    # 1e6 is beyond half precision: a column that was cast before it is scaled would be infinite.
    model = build_model(spec("mlp", precision=precision), table(2, mean=1e6, deviation=2e5))
    assert model.layers[1](np.array([[1.2e6, 0.8e6]], np.float32)).numpy().tolist() == [[1.0, -1.0]]
    assert np.isfinite(model(np.array([[1.2e6, 0.8e6]], np.float32))).all()
    constant = build_model(spec("mlp"), table(2, mean=0.1, deviation=0.0))  # is only centred
    assert constant.layers[1](np.array([[0.1, 5.1]], np.float32)).numpy() == pytest.approx(np.array([[0, 5]]), abs=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0.0, 255.0), (-4.0, 12.0), (0.0, 65_535.0)])
def test_pixels_are_scaled_to_minus_one_to_one_inside_the_network(low: float, high: float) -> None:
    model = build_model(spec("lenet5"), facts(8, 8, 1, dtype="float32", value_range=(low, high)))
    scaled = model.layers[1](np.array([low, (low + high) / 2, high], np.float32))
    assert scaled.numpy() == pytest.approx([-1, 0, 1], abs=1e-6)


def test_the_seed_alone_decides_the_first_weights_and_grey_is_repeated_for_a_base() -> None:
    fields = {"name": "mobilenet_v2", "dropout": 0.1}
    colour, grey, other = (
        build_model(spec(fields, seed=seed), facts(32, 32, channels)) for seed, channels in ((1, 3), (1, 1), (2, 3))
    )
    assert all(equal(values(colour.variables), values(grey.variables)))
    assert not all(equal(values(colour.get_layer("base").variables), values(other.get_layer("base").variables)))
    pixels = images(2, 32, 32, 1)
    assert np.array_equal(grey(pixels), colour(np.repeat(pixels, 3, axis=-1)))
    with pytest.raises(
        BadData, match=r"model\.name: mobilenet_v2 takes images of 1 or 3 channels, and those here have 4"
    ):
        build_model(spec("mobilenet_v2"), facts(32, 32, 4))


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_computes_in_half_precision_and_keeps_float32_weights(precision: str) -> None:
    model = build_model(spec("convnet7", precision=precision), facts(8, 8, 1))
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    assert model.layers[2].compute_dtype == precision.removeprefix("mixed_")
    assert model.output.dtype == "float32"


@pytest.mark.parametrize(
    ("name", "statistics", "dropouts"),
    [("lenet5", 0, None), ("chipnet", 0, None), ("resnet20", 2 * 19, None), ("vit_tiny", 0, 1 + 3 * 12 + 1)],
)
def test_freezing_a_network_leaves_its_head_trainable(name: str, statistics: int, dropouts: int | None) -> None:
    frozen, scratch = (
        build_model(spec({"name": name, "dropout": 0.1, "weights": weights}), facts(8, 8, 1))
        for weights in ("job:other", "none")
    )
    assert [variable.path for variable in frozen.trainable_variables] == ["logits/kernel", "logits/bias"]
    assert moving_statistics(frozen) == []
    assert len(moving_statistics(scratch)) == statistics  # ranks average them
    assert len(scratch.trainable_variables) + statistics == len(scratch.variables) - seeds(scratch)
    if dropouts is not None:  # a frozen one drops only before its head
        counts = [sum(isinstance(each, keras.layers.Dropout) for each in model.layers) for model in (scratch, frozen)]
        assert counts == [dropouts, 1]


def seeds(model: keras.Model) -> int:
    """How many variables are the states of generators of random numbers."""
    return sum("seed_generator" in variable.path for variable in model.variables)


def test_an_unknown_model_is_bad_data() -> None:
    with pytest.raises(BadData, match="there is no model 'resnet51'; there are: lenet5, mlp, alexnet, convnet7"):
        build_model(spec("resnet51"), facts(8, 8, 1))


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
