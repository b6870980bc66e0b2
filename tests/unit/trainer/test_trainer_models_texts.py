"""The networks for texts: what they compute, what they refuse, and what becomes of their weights."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.networks import facts, spec
from tests.weights import launch
from trainer.artifacts import save_classes, save_network, save_vocabulary
from trainer.data.interfaces import Facts
from trainer.data.texts import Encoder, digest_of
from trainer.errors import BadData
from trainer.models import build_model, load_initial_weights

NAMES = ["bag_of_words", "text_transformer"]
WORDS = ("[PAD]", "[UNK]", *(f"word{number}" for number in range(48)))


def texts(length: int = 12, vocabulary: tuple[str, ...] = WORDS) -> Facts:
    return facts(length, classes=3, dtype="int32", value_range=None, vocabulary=vocabulary)


def samples(rows: int = 4, length: int = 12) -> NDArray[np.int32]:
    return np.random.default_rng(3).integers(1, len(WORDS), (rows, length), np.int32)


def built(name: str, **fields: Any) -> keras.Model:
    """A network whose head is not zero, so that the layers below it show."""
    model = build_model(spec(name, **fields), texts())
    kernel = model.get_layer("logits").kernel
    kernel.assign(np.random.default_rng(4).normal(size=kernel.shape))
    return model


def test_text_networks_have_the_expected_number_of_parameters() -> None:
    many = tuple(map(str, range(20_002)))
    counts = [build_model(spec(name), texts(256, many)).count_params() for name in NAMES]
    assert counts == [20_000 * 3 + 3, 2_990_211]


def test_a_bag_of_words_counts_known_words_whatever_their_sequence() -> None:
    model = built("bag_of_words")
    text = np.array([[2, 5, 2, 1, 1, 49, 0, 0, 0, 0, 0, 0]], np.int32)
    counts = keras.Model(model.input, model.get_layer("logits").input)(text)
    expected = np.zeros((1, 48))
    expected[0, [0, 3, 47]] = [2, 1, 1]
    assert counts.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_padding_does_not_count_and_an_empty_text_is_finite(name: str, precision: str) -> None:
    model = built(name, precision=precision)
    padded = samples()
    padded[:, 5:] = 0
    padded[0] = 0
    logits = model(padded).numpy()
    assert np.isfinite(logits).all()
    assert logits[0] == pytest.approx(0)  # the biases
    other = padded.copy()
    other[1:, 5] = 7
    assert (np.abs(model(other).numpy()[1:] - logits[1:]).max(1) > 1e-3).all()


def test_a_text_transformer_gives_the_same_for_a_text_with_more_padding() -> None:
    short, long = (build_model(spec("text_transformer"), texts(length)) for length in (5, 12))
    for weight, longer in zip(short.weights, long.weights, strict=True):
        longer.assign(weight if weight.shape == longer.shape else np.pad(weight.numpy(), ((0, 7), (0, 0))))
    padded = np.pad(samples(4, 5), ((0, 0), (0, 7)))
    assert long(padded).numpy() == pytest.approx(short(padded[:, :5]).numpy(), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("lenet5", texts(), r"lenet5 takes no texts, .*: use bag_of_words or text_transformer"),
        ("mlp", texts(), r"mlp takes no texts"),
        ("acme:net", texts(), r"acme:net takes no texts, .*: use bag_of_words or text_transformer"),
        ("bag_of_words", facts(8, 8, 1), r"bag_of_words takes texts, and the samples here are images: use lenet5, mlp"),
        ("text_transformer", facts(4, dtype="float32"), r"the samples here are rows of numbers: use mlp$"),
    ],
)
def test_a_network_on_other_data_is_refused_with_those_that_fit(name: str, data: Facts, message: str) -> None:
    data = data if data.are_texts or len(data.shape) == 3 else facts(4, value_range=(0.0, 1.0))
    with pytest.raises(BadData, match=rf"model\.name: .*{message}"):
        build_model(spec(name), data, models=["acme:net"])


def test_a_frozen_text_transformer_trains_its_head_and_drops_only_before_it() -> None:
    model = build_model(spec({"name": "text_transformer", "dropout": 0.1, "weights": "job:other"}), texts())
    assert [variable.path for variable in model.trainable_variables] == ["logits/kernel", "logits/bias"]
    assert sum(isinstance(layer, keras.layers.Dropout) for layer in model.layers) == 1


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_a_job_fit_texts_with_the_same_vocabulary_only(tmp_path: Path, name: str) -> None:
    saved = built(name)
    save_network(saved, tmp_path, WORDS)
    asked = spec({"name": name, "weights": "job:1aagd4bvydhb", "freeze_base": False}, seed=9)
    told = launch(tmp_path, asked, job_weights=tmp_path / "model.weights.h5")
    model = build_model(asked, texts())
    load_initial_weights(model, asked, told, vocabulary=digest_of(WORDS))
    assert np.array_equal(model(samples()), saved(samples()))
    with pytest.raises(BadData, match=r"job:1aagd4bvydhb was trained with another vocabulary: .*dataset\.text_length"):
        load_initial_weights(model, asked, told, vocabulary=digest_of(WORDS[::-1]))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_job_leaves_predicts_texts_as_the_documentation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model, vocabulary = built(name), (*WORDS[:-1], "naïve")
    save_network(model, tmp_path, vocabulary)
    save_vocabulary(vocabulary, tmp_path)
    save_classes(("a", "b", "ç"), tmp_path)
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    text, shown = "Word3 word7, ¡Naïve! nothing " + "word9 " * 20, []
    monkeypatch.chdir(tmp_path)
    exec(code, {"text": text, "print": shown.append})  # noqa: S102
    assert shown == ["abç"[int(np.argmax(model(Encoder(vocabulary, 12)([text]))))]]
