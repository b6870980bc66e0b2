"""From labels to classes, and the labels of each task in every kind of data, as a training session opens them."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.model.tasks import AnyTask
from tests.datasets import open_dataset
from tests.tfrecords import example, write
from tests.unit.trainer.reading import read
from trainer.data.classes import class_names, warnings_about
from trainer.data.interfaces import Survey
from trainer.data.opening import Dataset
from trainer.errors import BadData

ROWS = 40
X = np.arange(2.0 * ROWS).reshape(ROWS, 2)


def opened(source: str, root: Path, task: AnyTask = "auto", *, ranks: int = 1, **fields: Any) -> Dataset:
    return open_dataset({"source": source, **fields}, root, task=task, ranks=ranks)


def npz(root: Path, y: Any, **more: Any) -> str:
    np.savez(root / "a.npz", x=X, y=np.asarray(y), **more)
    return "a.npz"


def parquet(root: Path, labels: Any, *, name: str = "a", x: Any = X[:, 0]) -> str:
    pq.write_table(pa.table({"x": x[: len(labels)], "label": labels}), root / f"{name}.parquet", row_group_size=7)
    return f"{name}.parquet"


def labels_of(dataset: Dataset) -> Any:
    """The labels of all samples, in the sequence of the first feature."""
    features, labels = read(dataset.train, dataset.validation)
    return labels[np.argsort(features[:, 0])]


@pytest.mark.parametrize(
    ("labels", "task", "shape", "dtype"),
    [
        (np.eye(4)[np.arange(ROWS) % 4], "classification", (ROWS,), np.int32),
        (np.arange(ROWS) / 7, "regression", (ROWS, 1), np.float32),
        (np.arange(ROWS)[:, None] / 7, "regression", (ROWS, 1), np.float32),
        (X * 1.5, "regression", (ROWS, 2), np.float32),
        (np.arange(3 * ROWS).reshape(ROWS, 3) % 2, "multilabel", (ROWS, 3), np.uint8),
    ],
)
def test_arrays_say_what_their_labels_are_for(
    labels: Any, task: str, shape: tuple[int, ...], dtype: Any, tmp_path: Path
) -> None:
    dataset = opened(npz(tmp_path, labels), tmp_path)
    read = labels_of(dataset)
    assert (dataset.facts.task, read.shape, read.dtype) == (task, shape, dtype)
    assert dataset.facts.outputs == (max(shape[1:], default=0) or len(dataset.facts.classes))
    if task != "classification":
        np.testing.assert_allclose(read, np.asarray(labels).reshape(shape), rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "task", "shape"),
    [
        (pa.array(np.arange(ROWS) / 7), "regression", (ROWS, 1)),
        (pa.array([Decimal(row) / 8 for row in range(ROWS)]), "regression", (ROWS, 1)),
        (pa.array((X * 1.5).tolist(), pa.list_(pa.float32(), 2)), "regression", (ROWS, 2)),
        (pa.array((X * 1.5).tolist()), "regression", (ROWS, 2)),  # as pandas writes it
        (pa.array([["cat", "dog"][: row % 3] for row in range(ROWS)]), "multilabel", (ROWS, 2)),
        (pa.array([[0, 2, 2][: row % 4] for row in range(ROWS)]), "multilabel", (ROWS, 3)),
        (pa.array([[row % 2, 1, 0] for row in range(ROWS)], pa.list_(pa.int8(), 3)), "multilabel", (ROWS, 3)),
    ],
)
def test_parquet_says_it_by_the_type_of_the_column(
    labels: pa.Array, task: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    source = parquet(tmp_path, labels)
    dataset = opened(source, tmp_path, ranks=3)
    read = labels_of(dataset)
    assert (dataset.facts.task, read.shape) == (task, shape)
    assert dataset.facts == opened(source, tmp_path, ranks=1).facts  # to the last digit
    (batch, *_) = dataset.validation.evaluate(rank=0, ranks=1, per_rank=3)
    assert batch.labels.shape == (3, *shape[1:])
    if task == "regression":
        expected = np.array(labels.to_pylist(), np.float64).reshape(shape)
        np.testing.assert_allclose(read, expected, rtol=1e-6)
        assert dataset.facts.targets is not None
        np.testing.assert_allclose(dataset.facts.targets.mean, expected.mean(0), rtol=1e-6)
        np.testing.assert_allclose(dataset.facts.targets.deviation, expected.std(0), rtol=1e-6)
    elif pa.types.is_string(labels.type.value_type):
        assert dataset.facts.classes == ("cat", "dog")
        assert dataset.facts.counts == (26, 13)
        assert read[:4].tolist() == [[0, 0], [1, 0], [1, 1], [0, 0]]
    elif not pa.types.is_fixed_size_list(labels.type):
        assert dataset.facts.counts == (30, 0, 20)
        assert read[:4].tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 0, 1]]


def test_whole_numbers_can_be_learned_as_numbers_also_of_a_test_part(tmp_path: Path) -> None:
    whole = np.arange(ROWS) * 1000
    dataset = opened(npz(tmp_path, whole, x_test=X[:3], y_test=np.array([1, 2, 3])), tmp_path, "regression")
    np.testing.assert_array_equal(labels_of(dataset)[:, 0], whole)
    assert read(dataset.test)[1].tolist() == [[1], [2], [3]]
    dataset = opened(parquet(tmp_path, pa.array(whole)), tmp_path, "regression", cache="memory")
    np.testing.assert_array_equal(labels_of(dataset)[:, 0], whole)
    batches = dataset.validation.evaluate(rank=0, ranks=1, per_rank=4)
    assert next(batches).labels.dtype == np.float32


def test_records_and_generated_images_have_numbers_to_learn(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [example(x=X[row].tolist(), label=[row / 7, -float(row)]) for row in range(ROWS)])
    dataset = opened("a.tfrecord", tmp_path)
    assert dataset.facts.task == "regression"
    np.testing.assert_allclose(labels_of(dataset)[:, 0], np.arange(ROWS) / 7, rtol=1e-6)
    with pytest.raises(BadData, match="task: classification does not fit the label 'label' of a"):
        opened("a.tfrecord", tmp_path, "classification")
    dataset = opened("synthetic:samples=50,classes=5,targets=2,shape=8x8x1", tmp_path)
    assert (dataset.facts.task, dataset.facts.outputs) == ("regression", 2)


def names(*rows: Any, kind: Any = None) -> pa.Array:
    return pa.array([*rows] * (ROWS // len(rows)), kind)


@pytest.mark.parametrize(
    ("labels", "task", "refused"),
    [
        (np.full(ROWS, 0.5), "auto", "the label is 0.5 in every sample: there is nothing to learn"),
        (X * [[1, 0]] + 1, "regression", r"number 1 \(from 0\) of the labels is 1 in every"),
        (np.where(np.arange(ROWS) == 3, np.nan, 0.5), "auto", r"the label of sample 3 \(from 0\) is NaN"),
        (np.arange(ROWS) * 1e300, "regression", r"the label of sample 1 \(from 0\) is NaN, infinite or beyond float32"),
        (1e9 + np.arange(ROWS), "regression", "which float32 can hardly tell apart: subtract 1e"),
        (np.array(["1.5"] * ROWS), "regression", "task: regression learns one or several numbers a sample"),
        (np.arange(2 * ROWS).reshape(ROWS, 2), "auto", "neither one-hot .* set task to regression"),
        (np.arange(ROWS) % 2, "multilabel", "task: multilabel needs a row of 0 and 1 for each sample"),
        (-np.eye(2)[np.arange(ROWS) % 2], "multilabel", r"label 0 of sample 0 \(from 0\) is -1, and not 0 or 1"),
        (np.zeros((ROWS, 3)), "auto", "no sample has a label at all"),
        (np.arange(ROWS) / 7, "classification", "a class is a whole number"),
        (names("1", "2"), "regression", "task: regression does not fit the label column 'label', which holds string"),
        (names(0.5, 1.5), "classification", "which holds double: it is for regression"),
        (names(0.5, None), "auto", "the label column 'label' has empty values"),
        (names(0.5, float("nan")), "auto", "has values that are NaN, infinite or beyond float32"),
        (names(["a"], ["a", None]), "auto", "the label column 'label' has empty values"),
        (names(["a"], None), "auto", "the label column 'label' has empty values"),
        (names([], [], kind=pa.list_(pa.string())), "auto", "no sample has a label at all"),
        (names([0.5], [0.5, 1.5]), "auto", "has lists of 1 to 2 numbers: write as many in each row"),
        (names([], [0.5], kind=pa.list_(pa.float64())), "auto", "has lists of 0 to 1 numbers"),
        (names([0, 5], kind=pa.list_(pa.int32(), 2)), "auto", "0 or 1 for each class, and holds 5"),
        (names({"a": 1}), "auto", "a label is an integer, a string, a number or a list of those"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_learned_are_refused(labels: Any, task: AnyTask, refused: str, tmp_path: Path) -> None:
    source = parquet(tmp_path, labels) if isinstance(labels, pa.Array) else npz(tmp_path, labels)
    with pytest.raises(BadData, match=refused):
        opened(source, tmp_path, task)


def test_a_validation_part_has_the_same_labels(tmp_path: Path) -> None:
    parquet(tmp_path, names(["a"], ["a", "b"]))
    parquet(tmp_path, names(["a"], ["c"]), name="other")
    with pytest.raises(BadData, match="the label 'c' is not among the classes of the training data"):
        opened("a.parquet", tmp_path, validation="other.parquet")
    parquet(tmp_path, names([0.5, 1.5], [1.5, 0.5]), name="two")
    parquet(tmp_path, names([0.5], [1.5]), name="one")
    with pytest.raises(BadData, match="its labels are of 1 numbers to learn, those of the training data of 2"):
        opened("two.parquet", tmp_path, validation="one.parquet")
    with pytest.raises(BadData, match="task: multilabel does not fit the label column 'label'"):
        opened("a.parquet", tmp_path, validation="one.parquet")
    matrix = np.arange(3 * ROWS).reshape(ROWS, 3) % 2
    with pytest.raises(BadData, match="its labels are of 2 classes, those of the training data of 3"):
        opened(npz(tmp_path, matrix, x_val=X, y_val=matrix[:, :2]), tmp_path)


def survey_of(*labels: str | int) -> Survey:
    kind = "string" if any(isinstance(label, str) for label in labels) else "integer"
    return Survey(samples=len(labels), labels={str(label): 1 for label in labels}, label_kind=kind)


@pytest.mark.parametrize(
    ("labels", "classes", "warning"),
    [
        (("dog", "cat", "10", "9"), ("10", "9", "cat", "dog"), None),
        (("Kräuter", "花", "a\u3000b"), ("Kräuter", "a\u3000b", "花"), None),
        (range(11), tuple(map(str, range(11))), None),
        ((1, 3), ("0", "1", "2", "3"),  # a number may be unused
         "Labels run from 1 to 3; classes 0, 2 have no samples. Every number from 0 on is a class."),
        (range(1, 13), tuple(map(str, range(13))),
         ("Labels run from 1 to 12; class 0 has no samples. Classes are numbered from 0: subtract 1 from the labels "
          "for 12 classes instead of 13.")),
    ],
)  # fmt: skip
def test_strings_become_sorted_classes_and_an_integer_is_the_number_of_its_class(
    labels: Sequence[str | int], classes: tuple[str, ...], warning: str | None
) -> None:
    survey = survey_of(*labels)
    assert class_names(survey, name="x") == classes
    counts = [survey.labels.get(name, 0) for name in classes]
    assert warnings_about(classes, counts) == ([] if warning is None else [warning])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ((), "x: there is no sample at all"),
        ((0,), r"x: there is only one class \('0'\)"),
        (("cat",), r"x: there is only one class \('cat'\)"),
        ((0, 1, -1), "x: the label -1 is out of range: number the classes from 0"),
        ((0, 255), "x: the label 255 is out of range: with 2 different labels the classes are numbered from 0 to 1"),
        (range(10_001), "x: more than 10000 different labels"),
        (("cat", ""), "x: the label '' is empty or holds control characters"),
        (("cat", "a\0b"), r"x: the label 'a\\x00b' is empty or holds control characters"),
        (("cat", "\udc80"), r"x: the label '\\udc80' is empty or holds control characters"),
    ],
)
def test_labels_that_make_no_classes_are_bad_data(labels: tuple[str | int, ...], sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        class_names(survey_of(*labels), name="x")
