"""Networks of other packages: called only where the operator allows them, and wrapped like the built-in ones."""

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.networks import facts, spec
from trainer.errors import BadData
from trainer.models import build_model, moving_statistics

MODULE = """
import keras
from keras import layers

loaded = True


def build(shape, classes):
    return keras.Sequential([
        keras.Input(shape), layers.Flatten(), layers.Dense(8), layers.BatchNormalization(),
        layers.Dense(classes, name="logits"),
    ])


def nameless(shape, classes):
    return keras.Sequential([keras.Input(shape), layers.Flatten(), layers.Dense(classes)])


def wrong_shape(shape, classes):
    return keras.Sequential([keras.Input(shape), layers.Flatten(), layers.Dense(classes + 1)])


def broken(shape, classes):
    raise RuntimeError("no such backbone")


def nothing(shape, classes):
    return None


def never_callable(shape, classes):
    return keras.Sequential([keras.Input((3, 3)), layers.Dense(classes)])


class Unsavable(keras.Model):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def call(self, x):
        return self.head(keras.ops.mean(x, axis=(1, 2)))


def unsavable(shape, classes):
    return Unsavable(object())
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package `hora_test_zoo`, not yet imported."""
    (tmp_path / "hora_test_zoo.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hora_test_zoo", raising=False)


def built(function: str, *, allowed: list[str] | None = None, precision: str = "float32", **fields: Any) -> keras.Model:
    name = f"hora_test_zoo:{function}"
    asked = spec({"name": name, **fields}, precision=precision)
    return build_model(asked, facts(4, 4, 1, classes=3), models=[name] if allowed is None else allowed)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_allowed_network_gets_scaled_pixels_and_gives_logits(precision: str, tmp_path: Path) -> None:
    model = built("build", precision=precision)
    pixels = np.random.default_rng(1).integers(0, 256, (2, 4, 4, 1), np.uint8)
    logits = model(pixels)
    assert logits.shape == (2, 3)
    assert logits.dtype == "float32"
    network = model.get_layer(index=2)
    scaled = pixels.astype(np.float32) / 127.5 - 1
    assert logits.numpy() == pytest.approx(network(scaled).numpy().astype(np.float32), abs=1e-2)
    assert len(moving_statistics(model)) == 2
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")  # noqa: TID251 - a file that the test wrote
    assert np.array_equal(loaded(pixels), logits)


@pytest.mark.parametrize("allowed", [[], ["hora_test_zoo:nameless"], ["hora_test_zoo"]])
def test_network_that_is_not_allowed_is_not_imported(allowed: list[str]) -> None:
    with pytest.raises(BadData) as told:
        built("build", allowed=allowed)
    assert str(told.value) == (
        "model.name: 'hora_test_zoo:build' is not among the models that this installation allows (HORA_MODELS): "
        + (", ".join(allowed) or "none")
    )
    assert "hora_test_zoo" not in sys.modules


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("broken", "model.name: hora_test_zoo:broken failed: RuntimeError: no such backbone"),
        ("missing", "failed: AttributeError: module 'hora_test_zoo' has no attribute 'missing'"),
        ("unsavable", "model.name: hora_test_zoo:unsavable failed: NotImplementedError"),
        ("nothing", "model.name: hora_test_zoo:nothing returned no keras.Model but NoneType"),
        ("wrong_shape", r"gives an output of shape \(None, 4\) for 3 classes"),
        ("never_callable", "model.name: hora_test_zoo:never_callable cannot be called: ValueError: "),
    ],
)
def test_a_function_that_fails_is_named_with_its_error(function: str, sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        built(function)


def test_a_package_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "hora_test_zoo.py").unlink()
    with pytest.raises(BadData, match="failed: ModuleNotFoundError: No module named 'hora_test_zoo'"):
        built("build")


def test_freezing_needs_a_layer_named_logits_and_the_field_of_dropout_is_refused() -> None:
    with pytest.raises(BadData, match=r"model\.dropout: hora_test_zoo:build places its own dropout; leave it at 0"):
        built("build", dropout=0.5)
    frozen = built("build", weights="job:other")
    assert [variable.shape for variable in frozen.trainable_variables] == [(8, 3), (3,)]
    assert moving_statistics(frozen) == []
    with pytest.raises(BadData, match=r"model\.freeze_base: hora_test_zoo:nameless has no layer named 'logits'"):
        built("nameless", weights="job:other")
    assert len(built("nameless", weights="job:other", freeze_base=False).trainable_variables) == 2
