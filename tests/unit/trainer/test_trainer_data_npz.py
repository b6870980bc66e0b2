"""Arrays from `.npz` archives, and the errors for archives that cannot be trained on."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets import open_dataset
from tests.unit.trainer.reading import read
from trainer.data.location import Location
from trainer.data.npz import collections
from trainer.data.opening import Dataset
from trainer.errors import BadData

IMAGES = (10 * np.arange(20)[:, None, None] + np.arange(16).reshape(4, 4)).astype(np.uint8)
LABELS = np.arange(20) % 3


def opened(root: Path, dataset: Any = None, /, **archive: Any) -> Dataset:
    """The dataset of an archive, opened by two ranks."""
    np.savez(root / "a.npz", **archive)
    return open_dataset({"source": "a.npz"} | (dataset or {}), root, ranks=2)


@pytest.mark.parametrize("names", [("x", "y"), ("X", "y"), ("images", "labels"), ("x_train", "y_train")])
def test_single_part_is_found_under_each_pair_of_names_and_samples_keep_their_labels(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    texts = np.array(["cow", "ant", "bee"])[LABELS]
    dataset = opened(tmp_path, **dict(zip(names, (IMAGES, texts), strict=True)))
    assert dataset.facts.sizes.model_dump() == {"train": 18, "validation": 2, "test": 0}
    features, labels = read(dataset.train, dataset.validation)
    rows = features[:, 0, 0, 0] // 10
    assert sorted(rows) == list(range(20))
    assert [dataset.facts.classes[label] for label in labels] == texts[rows].tolist()


def test_train_validation_and_test_arrays_become_parts(tmp_path: Path) -> None:
    rest = {"x_test": IMAGES[:5] * 2.0, "y_test": LABELS[:5], "x_val": IMAGES[:3] / 205, "y_val": LABELS[:3]}
    facts = opened(tmp_path, x_train=IMAGES / 205, y_train=LABELS, note="ignored", **rest).facts
    assert facts.sizes.model_dump() == {"train": 20, "validation": 3, "test": 5}
    assert facts.value_range == (0, 1)  # that of the training data


@pytest.mark.parametrize(
    ("values", "shape", "dtype", "value_range"),
    [
        (IMAGES, (4, 4, 1), "uint8", (0, 255)),
        (np.repeat(IMAGES[..., None], 3, axis=3), (4, 4, 3), "uint8", (0, 255)),
        (IMAGES / 4 - 1, (4, 4, 1), "float32", (-1, 205 / 4 - 1)),
        (IMAGES.astype(np.int16) * 10, (4, 4, 1), "float32", (0, 2050)),
        (IMAGES > 9, (4, 4, 1), "float32", (0, 1)),
        (IMAGES.astype(np.float16), (4, 4, 1), "float32", (0, 205)),
    ],
)
def test_images_of_each_type_become_uint8_or_float32(
    tmp_path: Path, values: Any, shape: tuple[int, ...], dtype: str, value_range: tuple[float, float]
) -> None:
    dataset = opened(tmp_path, x=values, y=LABELS)
    facts = dataset.facts
    assert (facts.shape, facts.dtype, facts.value_range, facts.normalization) == (shape, dtype, value_range, None)
    features, _ = read(dataset.train)
    assert (features.dtype, features.shape) == (dtype, (18, *shape))


def test_a_table_is_normalized_by_its_columns(tmp_path: Path) -> None:
    table = np.stack([np.arange(20), np.full(20, 5), np.arange(20) * 1e6], axis=1)
    facts = opened(tmp_path, x=table, y=LABELS).facts
    assert (facts.shape, facts.dtype, facts.value_range) == ((3,), "float32", None)
    assert facts.normalization is not None
    assert facts.normalization.mean == pytest.approx((9.5, 5, 9.5e6))
    assert facts.normalization.deviation == pytest.approx((np.arange(20).std(), 1, np.arange(20).std() * 1e6))


@pytest.mark.parametrize(("columns", "shape"), [(16, (4, 4, 1)), (48, (4, 4, 3))])
def test_a_table_of_pixels_becomes_images_of_the_size_asked_for(
    tmp_path: Path, columns: int, shape: tuple[int, ...]
) -> None:
    table = np.arange(20 * columns, dtype=np.uint8).reshape(20, columns)
    dataset = opened(tmp_path, {"image_size": [4, 4]}, x=table, y=np.arange(20))
    assert (dataset.facts.shape, dataset.facts.value_range) == (shape, (0, 255))
    features, labels = read(dataset.train, dataset.validation)
    assert (features == table[labels].reshape(-1, *shape)).all()


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (LABELS.astype(np.uint64), ("0", "1", "2")),
        (LABELS.astype(np.float64), ("0", "1", "2")),
        (LABELS[:, None], ("0", "1", "2")),
        (np.eye(3)[LABELS], ("0", "1", "2")),
        (np.eye(3, dtype=bool)[LABELS], ("0", "1", "2")),
        (LABELS > 0, ("False", "True")),
        (np.array(["a", "c", "b"])[LABELS], ("a", "b", "c")),
        (np.array(["ä".encode(), b"c", b"b"])[LABELS], ("b", "c", "ä")),
    ],
)
def test_labels_of_each_kind_become_classes(tmp_path: Path, values: Any, classes: tuple[str, ...]) -> None:
    dataset = opened(tmp_path, x=IMAGES, y=values)
    assert dataset.facts.classes == classes
    assert set(read(dataset.train, dataset.validation)[1]) == set(range(len(classes)))


def changed(row: int, value: float) -> Any:
    values = IMAGES.astype(np.float64)
    values[row, 1, 2] = value
    return values


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        ({}, "a.npz: it holds nothing; x_train and y_train, or x and y, are needed"),
        ({"x_test": IMAGES, "y_test": LABELS}, "it holds x_test, y_test; x_train and y_train"),
        ({"x": IMAGES}, "a.npz: it holds x but no y"),
        ({"x": IMAGES, "y": LABELS, "y_test": LABELS}, "a.npz: it holds y_test but no x_test"),
        ({"x": IMAGES, "y": LABELS[:-1]}, "a.npz, x: there are 20 samples and 19 labels"),
        ({"x": IMAGES[:0], "y": LABELS[:0]}, r"a.npz, x: the samples have the shape \(0, 4, 4\): there is no value"),
        ({"x": IMAGES[:, :0], "y": LABELS}, r"a.npz, x: the samples have the shape \(20, 0, 4\): there is no value"),
        ({"x": IMAGES, "y": LABELS * 0}, r"a.npz, x: there is only one class \('0'\)"),
        ({"x": IMAGES[:, 0, 0], "y": LABELS}, r"the samples have the shape \(20,\): \(sample, height, width"),
        ({"x": IMAGES[None, None], "y": LABELS[:1]}, r"the samples have the shape \(1, 1, 20, 4, 4\)"),
        ({"x": np.float64(1), "y": np.int64(1)}, r"the labels have the shape \(\)"),
        ({"x": np.zeros((20, 3, 8, 8), "u1"), "y": LABELS}, r"the shape \(20, 3, 8, 8\): put the channels last"),
        ({"x": IMAGES.astype(str), "y": LABELS}, "the samples are of the type <U3: save them as integers or floats"),
        ({"x": changed(7, np.nan), "y": LABELS}, r"a.npz, x: sample 7 \(from 0\) holds NaN or infinity"),
        ({"x": changed(3, 1e300), "y": LABELS}, r"a.npz, x: sample 3 \(from 0\) holds NaN or infinity"),
        ({"x": changed(3, np.nan)[:, 1], "y": LABELS}, r"a.npz, x: sample 3 \(from 0\) holds NaN or infinity"),
        (
            {"x": IMAGES, "y": LABELS, "x_test": changed(2, np.nan), "y_test": LABELS},
            r"a.npz, x_test: sample 2 \(from 0\) holds NaN",
        ),
        ({"x": IMAGES * 0.0 + 7, "y": LABELS}, "a.npz, x: every value is 7: there is nothing to learn from"),
        ({"x": IMAGES, "y": LABELS * 1j}, "the labels are of the type complex128: save them as integers or strings"),
        ({"x": IMAGES, "y": np.full(20, b"\xff")}, "the labels are bytes that are no UTF-8 text"),
        ({"x": IMAGES, "y": np.full((20, 2), "a")}, r"the labels have the shape \(20, 2\) and are not one-hot"),
        ({"x": IMAGES, "y": IMAGES}, r"the labels have the shape \(20, 4, 4\): one label a sample is needed"),
        ({"x": IMAGES, "y": np.array([1, "a", None] * 7, object)[:20]}, "it holds Python objects: save arrays"),
        ({"x": IMAGES.astype(object), "y": LABELS}, "it holds Python objects: save arrays"),
    ],
)
def test_archives_that_cannot_be_trained_on_are_bad_data(
    tmp_path: Path, archive: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadData, match=sentence):
        opened(tmp_path, **archive)


def test_table_that_does_not_fit_image_size_is_bad_data(tmp_path: Path) -> None:
    sentence = (
        "dataset.image_size: a row of a.npz, x is no such image: it has 32 values, and 4x4 is 16 values with 1 channel"
    )
    with pytest.raises(BadData, match=sentence):
        opened(tmp_path, {"image_size": [4, 4]}, x=IMAGES.reshape(10, 32), y=LABELS[:10])


def archive_of(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def npy(values: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


GOOD = archive_of(x=npy(IMAGES), y=npy(LABELS))
HUGE = npy(IMAGES).replace(b"(20, 4, 4)", b"(1000000000000, 4, 4)").replace(b" " * 11 + b"\n", b"\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an archive",
        GOOD[:100],
        GOOD[:-30],
        GOOD.replace(IMAGES.tobytes(), bytes(320)),  # the checksum no longer holds
        npy(IMAGES),
        pickle.dumps({"x": 1}),
        archive_of(x=b"no array", y=npy(LABELS)),
        archive_of(x=npy(IMAGES)[:80], y=npy(LABELS)),
        archive_of(x=npy(IMAGES)[:-10], y=npy(LABELS)),
        archive_of(x=HUGE, y=npy(LABELS)),
    ],
)
def test_damaged_archives_are_bad_data(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(BadData, match=r"cannot read 'a.npz': \w+"):
        open_dataset("a.npz", tmp_path)


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
@settings(max_examples=100)
def test_an_archive_with_any_wrong_byte_is_read_or_refused(at: int, byte: int) -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/a.npz", GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    try:
        found = collections(Location("a.npz", files, "/a.npz"), None)
    except BadData:
        return
    assert set(found) == {"train"}
