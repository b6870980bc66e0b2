"""Collections of Parquet files: how they are found, surveyed and refused."""

import datetime
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tables import collections, numbered, part, surveyed, write
from trainer.data.interfaces import SampleSchedule, Selection, Survey, Target
from trainer.data.parquet import survey as parquet_survey
from trainer.errors import BadData


def train_survey(source: str, root: Path, *, ranks: int = 1, **fields: Any) -> Survey:
    return surveyed(collections(source, root, **fields)["train"], ranks=ranks)


def tables(*names: str) -> dict[str, pa.Table]:
    """A table of 20 rows for each file."""
    return {name: numbered(20) for name in names}


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["a.parquet"], {"train": 1}),
        (["a.parquet", "b/c/d.pq", ".hidden.parquet", "_temporary/e.parquet", "b/.f/g.parquet"], {"train": 2}),
        (["train/a.parquet", "train/b.parquet", "test/a.parquet"], {"train": 2, "test": 1}),
        (["x/train/0.parquet", "x/valid/0.parquet", "x/test/0.parquet"], {"train": 1, "validation": 1, "test": 1}),
        (["data/train-0-of-2.parquet", "data/train-1-of-2.parquet", "data/val.parquet"], {"train": 2, "validation": 1}),
        (["test-0.parquet", "test-1.parquet"], {"train": 2}),  # a source for `validation`, or names that mean nothing
        (["trains.parquet", "testing.parquet"], {"train": 2}),
    ],
)
def test_files_are_assigned_to_parts_by_name(tmp_path: Path, names: list[str], parts: dict[str, int]) -> None:
    for name in names:
        write(tmp_path / "set" / name, numbered(20), [20])
    found = {part: surveyed(collection).samples // 20 for part, collection in collections("set", tmp_path).items()}
    assert found == parts


def test_the_survey_counts_labels_over_all_ranks_and_measures_columns(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    values = generator.normal(5, 3, 30_000)
    table = pa.table({"x": values, "always": np.full(30_000, 2.5), "label": np.arange(30_000) // 10_000})
    write(tmp_path / "a.parquet", table, [5, 20_000, 30_000])
    one, three = (train_survey("a.parquet", tmp_path, ranks=ranks) for ranks in (1, 3))
    assert one == three
    assert (one.samples, one.labels, one.shapes) == (30_000, {"0": 10_000, "1": 10_000, "2": 10_000}, [(2,)])
    assert one.details["dtype"] == "float32"
    (mean, always), (deviation, none) = one.details["normalization"]
    assert (mean, deviation) == (pytest.approx(5, abs=0.1), pytest.approx(3, abs=0.1))
    assert (always, none) == (2.5, 1)


LABELS = {
    "int8": pa.array([0, 1] * 10, pa.int8()),
    "uint64": pa.array([0, 1] * 10, pa.uint64()),
    "bool": pa.array([False, True] * 10),
    "dictionary of int": pa.array([0, 1] * 10).dictionary_encode(),
    "string": pa.array(["cat", "dog"] * 10),
    "large_string": pa.array(["cat", "dog"] * 10, pa.large_string()),
    "dictionary of string": pa.array(["cat", "dog"] * 10).dictionary_encode(),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_become_class_numbers(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "a.parquet", pa.table({"x": np.arange(20) % 2, "y": LABELS[kind]}), [7, 13])
    assert set(train_survey("a.parquet", tmp_path, label="y").labels.values()) == {10}
    opened = part("a.parquet", tmp_path, label="y")
    for batch in opened.evaluate(rank=0, ranks=1, per_rank=5):
        assert batch.labels.dtype == np.int32
        assert (batch.features[:, 0] == batch.labels).all()


def test_numeric_columns_of_every_type_become_features(tmp_path: Path) -> None:
    table = pa.table(
        {
            "flag": [True, False],
            "small": pa.array([1, 2], pa.uint8()),
            "half": pa.array(np.array([0.5, 1.5], np.float16)),
            "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
            "large": pa.array([2**40, 0]),
            "label": [0, 1],
        }
    )
    write(tmp_path / "a.parquet", table, [2])
    (batch,) = part("a.parquet", tmp_path).evaluate(rank=0, ranks=1, per_rank=2)
    assert batch.features.dtype == np.float32
    assert batch.features.tolist() == [[1, 1, 0.5, 1, 2, 2**40], [0, 2, 1.5, 3, 4, 0]]


def test_numbers_become_pixels_when_image_size_is_given(tmp_path: Path) -> None:
    grey = {f"p{place}": pa.array([place, place], pa.uint8()) for place in range(12)} | {"label": [0, 1]}
    write(tmp_path / "grey.parquet", pa.table(grey), [2])
    colour = pa.table({"p": pa.array([[0.0] * 6, [4.0] * 6], pa.list_(pa.float32(), 6)), "label": [0, 1]})
    write(tmp_path / "colour.parquet", colour, [2])

    (batch,) = part("grey.parquet", tmp_path, image_size=(3, 4)).evaluate(rank=0, ranks=1, per_rank=2)
    assert batch.features[0, ..., 0].tolist() == np.arange(12).reshape(3, 4).tolist()
    assert batch.features.dtype == np.uint8
    assert train_survey("grey.parquet", tmp_path).details["value_range"] == [0, 255]

    (batch,) = part("colour.parquet", tmp_path, image_size=(1, 2)).evaluate(rank=0, ranks=1, per_rank=2)
    assert batch.features.shape == (2, 1, 2, 3)
    assert train_survey("colour.parquet", tmp_path, image_size=(1, 2)).details["value_range"] == [0, 4]
    with pytest.raises(
        BadData, match=r"a row of grey.parquet is no such image: it has 12 numbers, and 5x5 is 25 numbers"
    ):
        train_survey("grey.parquet", tmp_path, image_size=(5, 5))


X = pa.array([0.5] * 20)
LABEL = pa.array([0, 1] * 10)
NO = pa.nulls(1, pa.float64())


def test_the_index_of_pandas_is_not_a_feature_and_huge_values_are_not_infinite(tmp_path: Path) -> None:
    metadata = {"pandas": '{"index_columns": ["__index_level_0__"], "columns": []}'}
    table = pa.table({"x": pa.array([3e38] * 20, pa.float32()), "label": LABEL, "__index_level_0__": range(20)})
    write(tmp_path / "a.parquet", table.replace_schema_metadata(metadata), [20])
    survey = train_survey("a.parquet", tmp_path)
    assert survey.shapes == [(1,)]
    assert survey.details["normalization"][0] == [pytest.approx(3e38)]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"x": X, "target": LABEL}, "no label column 'label' .dataset.label.; there are: x, target"),
        ({"x": X, "label": pa.array([datetime.date(2030, 1, 1)] * 20)}, "holds date32.day.: a label is an integer, a"),
        ({"x": X, "label": pa.nulls(20)}, "the label column 'label' holds null"),
        ({"x": X, "label": pa.array([0, None] * 10)}, "row group 0 of a.parquet: the label column 'label' has empty"),
        ({"x": X, "label": range(20)}, "a.parquet: more than 10 different labels in the column 'label': is it a la"),
        ({"label": LABEL}, "a.parquet: there is no column of numbers, images or texts beside the label 'label'"),
        ({"x": X, "s": ["a"] * 20, "label": LABEL}, "a.parquet: neither numbers nor images: 's' .string.: leave such"),
        ({"x": pa.array([[1.0]] * 20), "label": LABEL}, "'x' .list<.*double>.: leave.* with a fixed size"),
        ({"x": pa.concat_arrays([X[1:], NO]), "label": LABEL}, "row group 0 of a.parquet: the column 'x' has empty"),
        ({"y": X, "x": pa.array([np.nan] * 20), "label": LABEL}, "row group 0 of a.parquet: the column 'x' has values"),
        ({"x": pa.array([1e300] * 20), "y": X, "label": LABEL}, "the column 'x' has values that .* or beyond float32"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_trained_on_are_bad_data(
    tmp_path: Path, columns: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_survey, "MOST_CLASSES", 10)
    write(tmp_path / "a.parquet", pa.table(columns), [20])
    with pytest.raises(BadData, match=sentence):
        train_survey("a.parquet", tmp_path)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (numbered(20).drop_columns("x"), "set/b.parquet: the column 'x' is missing, and float in the first file"),
        (numbered(20).append_column("y", X), "set/b.parquet: the column 'y' is double, and missing in the first file"),
        (numbered(20).set_column(1, "x", X), "set/b.parquet: the column 'x' is double, and float in the first file"),
        (numbered(20).set_column(2, "label", pa.array(["a"] * 20)), "the label column 'label' holds another kind of"),
    ],
)
def test_files_with_different_columns_are_bad_data(tmp_path: Path, other: pa.Table, sentence: str) -> None:
    write(tmp_path / "set" / "a.parquet", numbered(20), [20])
    write(tmp_path / "set" / "b.parquet", other, [20])
    with pytest.raises(BadData, match=sentence):
        collections("set", tmp_path)


def test_files_and_folders_that_hold_no_table_are_bad_data(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", numbered(1000), [1000]).read_bytes()
    for name, content in {"empty": b"", "text": b"id,label\n1,2\n" * 10, "cut": whole[:-50]}.items():
        (tmp_path / f"{name}.parquet").write_bytes(content)
        with pytest.raises(BadData, match=rf"^{name}.parquet cannot be read: Parquet"):
            collections(f"{name}.parquet", tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadData, match=r"folder: there is no .parquet file in it"):
        collections("folder", tmp_path)
    for name in ("train-0.parquet", "test-0.parquet", "more.parquet"):
        write(tmp_path / "set" / name, numbered(20), [20])
    with pytest.raises(BadData, match=r"set: set/more.parquet belongs to no part, while others are named for train"):
        collections("set", tmp_path)
    write(tmp_path / "twice.parquet", pa.Table.from_arrays([X, X, LABEL], names=["x", "x", "label"]), [20])
    with pytest.raises(BadData, match=r"twice.parquet: the name of a column occurs twice: x, x, label"):
        collections("twice.parquet", tmp_path)
    write(tmp_path / "none.parquet", numbered(20)[:0], [0])
    collection = collections("none.parquet", tmp_path)["train"]
    with pytest.raises(BadData, match=r"none.parquet: there is not a single row"):
        collection.shape_of(surveyed(collection, ranks=2), None)


def damage_second_group(path: Path) -> None:
    chunk = pq.read_metadata(path).row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (damage_second_group, "row group 1 of a.parquet cannot be read: "),
        (lambda path: write(path, numbered(60), [50, 10]), "row group 1 of a.parquet: it has another number of rows"),
        (Path.unlink, "row group [01] of a.parquet cannot be read: "),
        (
            lambda path: write(path, numbered(100, classes=9), [50, 50]),
            "row group [01] of a.parquet: there is a label that was not there before: [4-8]",
        ),
    ],
)
def test_a_file_that_is_damaged_or_changed_after_opening_is_bad_data(
    tmp_path: Path, change: Callable[[Path], object], sentence: str
) -> None:
    path = write(tmp_path / "a.parquet", numbered(100), [50, 50])
    opened = part("a.parquet", tmp_path)
    change(path)
    with pytest.raises(BadData, match=sentence):
        list(opened.evaluate(rank=0, ranks=1, per_rank=10))
    with (
        pytest.raises(BadData, match=sentence),
        closing(opened.train(SampleSchedule(100, 0, 1, 10, 10, 1), epoch=1, first=0)) as batches,
    ):
        list(islice(batches, 10))


def test_hosts_with_different_files_are_bad_data(tmp_path: Path) -> None:
    for host, rows in (("here", 100), ("there", 90)):
        write(tmp_path / host / "set" / "a.parquet", numbered(rows), [rows])
    survey = train_survey("set", tmp_path / "here")
    there = collections("set", tmp_path / "there")["train"]
    with pytest.raises(BadData, match="set: the files on this host are not those of the first rank, or have changed"):
        there.part(survey, Target((2,), ("0", "1", "2", "3")), Selection("all"))


def test_links_are_followed_only_below_the_data_roots(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere.parquet", numbered(20), [20])
    write(tmp_path / "root" / "blobs" / "0123", numbered(20), [20])
    (tmp_path / "root" / "set").mkdir()
    (tmp_path / "root" / "set" / "a.parquet").symlink_to("../blobs/0123")
    assert train_survey("set", tmp_path / "root").samples == 20
    (tmp_path / "root" / "set" / "b.parquet").symlink_to("../../elsewhere.parquet")
    with pytest.raises(BadData, match=r"set: b.parquet is a link to a file outside the data roots"):
        collections("set", tmp_path / "root")
