"""Arrays from IDX files, and the errors for files that cannot be trained on."""

import gzip
import struct
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets import open_dataset
from tests.unit.trainer.reading import read
from trainer.data.idx import is_idx, read_idx
from trainer.data.location import Location
from trainer.data.opening import Dataset
from trainer.errors import BadData

IMAGES = (10 * np.arange(20)[:, None, None] + np.arange(16).reshape(4, 4)).astype(np.uint8)
LABELS = (np.arange(20) % 3).astype(np.uint8)


def idx(values: Any) -> bytes:
    return struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape) + values.tobytes()


def write(folder: Path, prefix: str, images: Any = IMAGES, labels: Any = LABELS, *, suffix: str = "") -> None:
    """Write a pair of files, compressed by gzip if there is a suffix."""
    folder.mkdir(exist_ok=True)
    for kind, values in (("images", images), ("labels", labels)):
        content = idx(values)
        name = f"{prefix}-{kind}-idx{values.ndim}-ubyte{suffix}"
        (folder / name).write_bytes(gzip.compress(content) if suffix else content)


def opened(root: Path, dataset: Any = "a") -> Dataset:
    return open_dataset(dataset, root, data_roots=["/nowhere", str(root)], ranks=2)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("test", ["t10k", "test"])
def test_folder_in_the_layout_of_mnist_is_read(tmp_path: Path, suffix: str, test: str) -> None:
    write(tmp_path / "a", "train", IMAGES[:10], LABELS[:10], suffix=".gz")  # a plain file takes precedence
    write(tmp_path / "a", "train", suffix=suffix)
    write(tmp_path / "a", test, IMAGES[:6], LABELS[:6], suffix=suffix)
    dataset = opened(tmp_path)
    assert dataset.facts.format == "arrays"
    assert dataset.facts.sizes.model_dump() == {"train": 18, "validation": 2, "test": 6}
    assert (dataset.facts.shape, dataset.facts.dtype, dataset.facts.value_range) == ((4, 4, 1), "uint8", (0, 255))
    assert dataset.facts.classes == ("0", "1", "2")
    features, labels = read(dataset.train)
    assert (features[:, 0, 0, 0] // 10 % 3 == labels).all()
    write(tmp_path / "a", "validation", IMAGES[:4], LABELS[:4])
    assert opened(tmp_path).facts.sizes.model_dump() == {"train": 20, "validation": 4, "test": 6}


def test_source_that_names_an_image_file_is_read_with_its_labels(tmp_path: Path) -> None:
    write(tmp_path / "a", "train")
    write(tmp_path / "a", "t10k", IMAGES[:6], LABELS[:6], suffix=".gz")
    assert opened(tmp_path, "a/t10k-images-idx3-ubyte.gz").facts.sizes.train == 5
    dataset = opened(tmp_path, {"source": "a", "validation": "a/t10k-images-idx3-ubyte.gz"})
    assert dataset.facts.sizes.model_dump() == {"train": 20, "validation": 6, "test": 6}
    for prefix, samples in (("train", 20), ("t10k", 10)):
        write(tmp_path / "fashion-mnist", prefix, IMAGES[:samples], LABELS[:samples], suffix=".gz")
    assert opened(tmp_path, "fashion-mnist").facts.sizes.model_dump() == {"train": 18, "validation": 2, "test": 10}


@pytest.mark.parametrize(
    ("images", "shape"),
    [(IMAGES.reshape(20, 16), (16,)), (IMAGES.reshape(20, 4, 2, 2), (4, 2, 2)), (IMAGES, (4, 4, 1))],
)
def test_images_of_two_to_four_dimensions_are_read(tmp_path: Path, images: Any, shape: tuple[int, ...]) -> None:
    write(tmp_path / "a", "train", images)
    assert opened(tmp_path).facts.shape == shape


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "a: train-images-idx3-ubyte does not begin as an IDX file of bytes does"),
        (idx(IMAGES).replace(b"\x08", b"\x0d", 1), "train-images-idx3-ubyte does not begin as an IDX file of bytes"),
        (idx(IMAGES)[:10], "train-images-idx3-ubyte is damaged: it holds 0 values, and its header says 20 x "),
        (idx(IMAGES)[:-1], "is damaged: it holds 319 values, and its header says 20 x 4 x 4"),
        (idx(IMAGES) + b"\0", "is damaged: it holds 321 values, and its header says 20 x 4 x 4"),
        (b"\0\0\x08\xff" + bytes(2000), "is damaged: it holds 980 values, and its header says 0 x 0"),
        (struct.pack(">4I", 0x0803, 2**32 - 1, 2**32 - 1, 2**32 - 1), "is damaged: it holds 0 values"),
        (gzip.compress(idx(IMAGES))[:-20], r"cannot read train-images-idx3-ubyte in 'a': .*end-of-stream"),
        (gzip.compress(idx(IMAGES))[:5] + b"no gzip", r"cannot read train-images-idx3-ubyte in 'a': "),
        (b"\x1f\x8bno gzip", "cannot read train-images-idx3-ubyte in 'a': Compressed file ended"),
        (idx(LABELS), "a: train-images has 1 dimensions and train-labels 1: 2 to 4 and 1 are understood"),
        (idx(IMAGES[..., None, None]), "a: train-images has 5 dimensions and train-labels 1"),
    ],
)
def test_files_that_cannot_be_trained_on_are_bad_data(tmp_path: Path, content: bytes, sentence: str) -> None:
    write(tmp_path / "a", "train")
    (tmp_path / "a" / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(BadData, match=sentence):
        opened(tmp_path)


def test_a_missing_file_or_one_of_other_dimensions_is_bad_data(tmp_path: Path) -> None:
    for kind in ("labels", "images"):
        write(tmp_path / "a", "train")
        next((tmp_path / "a").glob(f"*{kind}*")).unlink()
        with pytest.raises(BadData, match=f"a: there is no file of train-{kind}"):
            opened(tmp_path)
    write(tmp_path / "a", "train")
    (tmp_path / "a" / "train-labels-idx1-ubyte").write_bytes(idx(IMAGES))
    with pytest.raises(BadData, match="train-images has 3 dimensions and train-labels 3: 2 to 4 and 1 are understood"):
        opened(tmp_path)
    write(tmp_path / "b", "t10k")
    with pytest.raises(BadData, match="b: there is no train-images-idx3-ubyte; there are: t10k"):
        opened(tmp_path, "b")
    assert is_idx("train-labels.idx1-ubyte.gz")
    assert not is_idx("train-images.gz")


@given(content=st.binary(max_size=40).map(lambda rest: b"\0\0\x08" + rest))
@settings(max_examples=100)
def test_any_bytes_give_an_array_or_are_bad_data(content: bytes) -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/a/x", content)
    try:
        values = read_idx(Location("a", files, "/a"), "/a/x")
    except BadData:
        return
    assert values.dtype == np.uint8
