"""Texts out of Parquet: which column, which words, and how they become the input of a network."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets import open_dataset, plan_of, spec_of, train_batches
from tests.tables import write
from tests.unit.trainer.reading import read
from trainer.data import texts as texts_module
from trainer.data.opening import Dataset
from trainer.data.parquet import survey as parquet_survey
from trainer.data.parquet.columns import columns_of
from trainer.data.texts import Encoder, count_words, file_of, vocabulary_of, words_of
from trainer.errors import BadData

TEXTS = ["the cat saw a dog", "the dog, the DOG!", "", "cat_1 naïve Ünder", "?! -- ...", "dog"] * 10


def opened(root: Path, *, ranks: int = 1, **fields: Any) -> Dataset:
    return open_dataset({"source": "t.parquet", **fields}, root, ranks=ranks)


def save(root: Path, texts: Any, labels: Any = None, **columns: Any) -> None:
    labels = [number % 2 for number in range(len(texts))] if labels is None else labels
    write(root / "t.parquet", pa.table({"text": texts, "label": labels, **columns}), [max(1, len(texts) // 3)] * 3)


def texts_of(dataset: Dataset) -> list[str]:
    """The known words of the training and validation samples, as the network sees them."""
    words = dataset.facts.vocabulary
    numbers, _ = read(dataset.train, dataset.validation)
    return [" ".join(words[number] for number in row if number) for row in numbers]


@given(st.text() | st.text(st.characters(categories=["L", "M", "N", "P", "Zs"])), st.integers(1, 9))
def test_words_are_those_of_the_documented_expression(text: str, most: int) -> None:
    assert words_of(text, most) == re.findall(r"\w+", text.lower())[:most]


@given(st.lists(st.text("ab é_🙂\u05d0", max_size=12)))
def test_the_encoded_words_are_those_of_each_text(texts: list[str]) -> None:
    vocabulary = ("[PAD]", "[UNK]", "a", "b", "é")
    expected = [[vocabulary.index(word) if word in vocabulary else 1 for word in words_of(text, 4)] for text in texts]
    encoded = Encoder(vocabulary, 4)(texts)
    assert (encoded.shape, encoded.dtype) == ((len(texts), 4), np.int32)
    assert encoded.tolist() == [row + [0] * (4 - len(row)) for row in expected]


TWO, PRICED = {"title": "string", "body": "string"}, {"body": "string", "price": "double"}


@pytest.mark.parametrize(
    ("columns", "chosen", "text"),
    [
        ({"body": "string"}, None, "body"),
        ({"body": "large_string", "when": "timestamp"}, None, "body"),
        ({"title": "string", "text": "string"}, None, "text"),
        (TWO, "title", "title"),
        (PRICED, "body", "body"),
        ({"body": "string", "image": "binary"}, None, None),  # an image, as ever
        ({"body": "string", "image": "binary"}, "body", "body"),
        ({"body": "category"}, None, "body"),
        ({"price": "double"}, None, None),
    ],
)
def test_the_column_of_texts_is_found(columns: dict[str, str], chosen: str | None, text: str | None) -> None:
    found = columns_of(schema_of(columns), "label", text=chosen)
    assert (found.features == (text,), found.kind == "text") == (text is not None,) * 2


@pytest.mark.parametrize(
    ("columns", "chosen", "message"),
    [
        (TWO, None, r"several columns may hold the text: title, body: .*dataset\.text"),
        (PRICED, None, r"'body' \(string\): leave such .*, or name .* in dataset\.text"),
        ({"body": "string"}, "bdoy", r"no column 'bdoy' \(dataset\.text\); there are: label, body"),
        ({"body": "string"}, "label", r"dataset\.text: 'label' is the label column"),
        (PRICED, "price", r"dataset\.text: the column 'price' holds double, not strings"),
        ({"when": "timestamp"}, None, r"neither numbers nor images: 'when'.*out of the files$"),
    ],
)
def test_a_column_that_is_not_clear_is_refused(columns: dict[str, str], chosen: str | None, message: str) -> None:
    with pytest.raises(BadData, match=message):
        columns_of(schema_of(columns), "label", text=chosen)


def schema_of(columns: dict[str, str]) -> pa.Schema:
    types = {"timestamp": pa.timestamp("s"), "double": pa.float64(), "category": pa.dictionary(pa.int8(), pa.string())}
    made = {name: types.get(kind) or getattr(pa, kind)() for name, kind in columns.items()}
    return pa.schema({"label": pa.int64(), **made})


@pytest.mark.parametrize(
    ("type_", "cache"),
    [
        (pa.string(), "none"),
        (pa.large_string(), "memory"),
        (pa.dictionary(pa.int32(), pa.string()), "none"),
    ],
    ids=str,
)
def test_texts_of_every_type_are_numbers_of_their_words(tmp_path: Path, type_: pa.DataType, cache: str) -> None:
    save(tmp_path, pa.array(TEXTS).cast(type_))
    dataset = opened(tmp_path, text_length=4, vocabulary=6, cache=cache)
    assert dataset.facts.vocabulary == ("[PAD]", "[UNK]", "dog", "the", "a", "cat", "cat_1", "naïve")
    assert (dataset.facts.shape, dataset.facts.dtype, dataset.facts.are_texts) == ((4,), "int32", True)
    seen = ["the cat [UNK] a", "the dog the dog", "", "cat_1 naïve [UNK]", "", "dog"] * 10
    assert Counter(texts_of(dataset)) == Counter(seen)
    spec = spec_of({"source": "t.parquet", "text_length": 4})
    batch = next(train_batches(dataset, spec))
    assert (batch.features.shape, batch.features.dtype) == ((8, 4), np.int32)
    assert plan_of(dataset, spec).train_samples == 54
    evaluated = list(dataset.validation.evaluate(rank=0, ranks=1, per_rank=4))
    assert sum(batch.weights.sum() for batch in evaluated) == 6


def test_the_vocabulary_is_the_same_on_any_number_of_ranks(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    texts = [" ".join(f"w{number}" for number in generator.zipf(1.5, 20) % 500) for _ in range(300)]
    save(tmp_path, texts)
    one, two, five = (opened(tmp_path, ranks=ranks, vocabulary=100).facts.vocabulary for ranks in (1, 2, 5))
    assert one == two == five
    counts = Counter(word for text in texts for word in text.split())
    assert list(one[2:]) == sorted(counts, key=lambda word: (-counts[word], word))[:100]


def test_of_large_texts_spread_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_survey, "_COUNTED_BYTES", 20_000)
    save(tmp_path, [f"row{number} " + "often " * 20 for number in range(900)])
    one, two = (opened(tmp_path, ranks=ranks).facts.vocabulary for ranks in (1, 2))
    assert one == two
    numbers = sorted(int(word.removeprefix("row")) for word in one[3:])
    assert one[2] == "often"
    assert 80 < len(numbers) < 150
    assert np.diff(numbers).max() < 20
    assert (numbers[0], numbers[-1]) == (0, 899)


def test_the_validation_data_makes_no_vocabulary(tmp_path: Path) -> None:
    write(tmp_path / "set/train/a.parquet", pa.table({"text": ["one"] * 20, "label": [0, 1] * 10}), [20])
    write(tmp_path / "set/test/a.parquet", pa.table({"text": ["two"] * 8, "label": [0, 1] * 4}), [8])
    dataset = open_dataset({"source": "set"}, tmp_path)
    assert dataset.facts.vocabulary == ("[PAD]", "[UNK]", "one")
    assert dataset.test is not None
    (batch,) = dataset.test.evaluate(rank=0, ranks=1, per_rank=8)
    assert batch.features[:, :2].tolist() == [[1, 0]] * 8


@pytest.mark.parametrize(
    ("texts", "fields", "message"),
    [
        (["a", None] * 20, {}, r"t\.parquet: the column 'text' has null values: write an empty text"),
        (["?", ""] * 20, {}, r"t\.parquet: there is not a single word in the texts"),
        (["a", "b"] * 20, {"image_size": [8, 8]}, r"dataset\.image_size: the samples of t\.parquet are texts"),
        (["a", "b"] * 20, {"augment": ["flip_horizontal"]}, r"dataset\.augment: flip_horizontal .* samples are texts"),
        (["a", "b"] * 20, {"augment": [{"name": "mixup"}]}, r"dataset\.augment: mixup changes .* samples are texts"),
        (["a", "b"] * 20, {"balance": True}, r"dataset\.balance: Parquet is streamed"),
        ([f"w{number}" for number in range(40)], {}, r"t\.parquet: more than 30 different words: is this column a"),
    ],
)  # fmt: skip
def test_what_texts_cannot_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], fields: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(texts_module, "MOST_WORDS", 30)
    save(tmp_path, pa.array(texts, pa.string()))
    with pytest.raises(BadData, match=message):
        opened(tmp_path, ranks=2, **fields)


def test_a_text_that_is_no_utf8_is_refused_with_the_name_of_its_file(tmp_path: Path) -> None:
    wrong = pa.Array.from_buffers(pa.string(), 40, pa.array([b"caf\xe9"] * 40).buffers())
    save(tmp_path, wrong)
    with pytest.raises(
        BadData, match=r"row group 0 of t\.parquet cannot be read: 'utf-8' codec can't decode byte 0xe9"
    ):
        opened(tmp_path)


@pytest.mark.parametrize("fields", [{"text": "x"}, {"text_length": 5}, {"vocabulary": 5}], ids=str)
def test_fields_of_texts_are_refused_for_other_data(tmp_path: Path, fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(BadData, match=rf"dataset\.{name}: the samples are no texts"):
        open_dataset({"source": "digits", **fields}, tmp_path)


def test_a_vocabulary_breaks_ties_by_the_word_and_is_a_line_a_word() -> None:
    times: Counter[str] = Counter()
    count_words(times, ["b a", "c c b"], [1, 3], length=9)
    assert times == {"a": 1, "b": 4, "c": 6}
    vocabulary = vocabulary_of({"b": 2, "ä": 2, "a": 2, "c": 3}, most=3, name="x")
    assert vocabulary == ("[PAD]", "[UNK]", "c", "a", "b")
    assert file_of(vocabulary).decode().splitlines() == list(vocabulary)
