"""Arrays from IDX files and from CIFAR's own binary files, and the errors for files that cannot be trained on."""

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.datasets import open_dataset
from tests.unit.trainer.reading import read
from trainer.data.formats import files_of
from trainer.data.idx import is_idx, read_idx
from trainer.data.interfaces import Host
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


NAMES = ["airplane", "automobile", "bird"]
FINE = ["apple", "aquarium_fish", "baby", "bear"]


def images(samples: int, seed: int = 0) -> NDArray[np.uint8]:
    """Images (sample, 32, 32, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (samples, 32, 32, 3), dtype=np.uint8)


def write_cifar(path: Path, pixels: NDArray[np.uint8], *labels: NDArray[Any]) -> None:
    """A file as the site of CIFAR describes it: labels, then the red, green and blue bytes, of each image."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    path.write_bytes(np.concatenate([*(label.astype(np.uint8)[:, None] for label in labels), planes], axis=1).tobytes())


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number in (1, 2):
        write_cifar(folder / f"data_batch_{number}.bin", images(30, number), np.arange(30) % 3)
    write_cifar(folder / "test_batch.bin", images(6, 9), np.arange(6) % 3)
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    (folder / "readme.html").write_text("<html>")
    return folder


def opened_cifar(folder: Path, scratch: Path, **fields: Any) -> Dataset:
    return open_dataset({"source": folder.name, **fields}, scratch, data_roots=[str(folder.parent)])


def test_cifar_10_has_its_images_classes_and_test_part(ten: Path, tmp_path: Path) -> None:
    dataset = opened_cifar(ten, tmp_path)
    facts = dataset.facts
    assert (facts.format, facts.shape, facts.dtype, facts.classes) == ("arrays", (32, 32, 3), "uint8", tuple(NAMES))
    assert (facts.sizes.train, facts.sizes.validation, facts.sizes.test) == (54, 6, 6)
    features, labels = read(dataset.test)
    assert (features == images(6, 9)).all()
    assert labels.tolist() == [0, 1, 2, 0, 1, 2]
    trained, _ = read(dataset.train)
    both = np.concatenate([images(30, 1), images(30, 2)])
    assert {image.tobytes() for image in trained} <= {image.tobytes() for image in both}
    host = Host([str(ten.parent)], cache_dir=ten, scratch_dir=ten, threads=1)
    found = files_of(ten.name, host, expected_format="auto", field="source")
    assert found is not None
    names = [name for name, _ in found[1]]  # those of the fingerprint
    assert names == ["data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", "batches.meta.txt"]
    (ten / "batches.meta.txt").unlink()
    assert opened_cifar(ten, tmp_path).facts.classes == ("0", "1", "2")


def test_cifar_100_has_its_fine_classes(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    write_cifar(folder / "train.bin", images(40), np.arange(40) % 2, np.arange(40) % 4)
    write_cifar(folder / "test.bin", images(4, 9), np.zeros(4), np.arange(4))
    (folder / "fine_label_names.txt").write_text("\n".join(FINE))
    (folder / "coarse_label_names.txt").write_text("fruit\nothers\n")
    dataset = opened_cifar(folder, tmp_path, format="arrays", image_size=[16, 16])
    assert (dataset.facts.classes, dataset.facts.shape) == (tuple(FINE), (16, 16, 3))
    assert read(dataset.test)[1].tolist() == [0, 1, 2, 3]


def cut_file(folder: Path) -> None:
    content = (folder / "data_batch_2.bin").read_bytes()
    (folder / "data_batch_2.bin").write_bytes(content[:-1])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (cut_file, r"data_batch_2.bin has 92189 bytes, which are no whole records of 3073"),
        (lambda folder: (folder / "data_batch_1.bin").write_bytes(b""), "data_batch_1.bin has 0 bytes"),
        (lambda folder: (folder / "data_batch_1.bin").unlink(), "there is no data_batch_1.bin, and there are later"),
        (
            lambda folder: (folder / "batches.meta.txt").write_text("cat\ndog\n"),
            "data_batch_1.bin has a label 2, and batches.meta.txt names 2 classes",
        ),
        (lambda folder: (folder / "batches.meta.txt").write_bytes(b"\xff\xfe"), "cannot read batches.meta.txt"),
        (
            lambda folder: write_cifar(folder / "test_batch.bin", images(2), np.array([0, 200])),
            "test_batch.bin has a label 200",
        ),
    ],
)
def test_damaged_files_of_cifar_are_bad_data(
    ten: Path, tmp_path: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    damage(ten)
    with pytest.raises(BadData, match=sentence):
        opened_cifar(ten, tmp_path)


@pytest.mark.parametrize(
    ("files", "archive"),
    [
        (["data_batch_1", "data_batch_2", "test_batch", "batches.meta"], "cifar-10-binary.tar.gz"),
        (["train", "test", "meta", "file.txt~"], "cifar-100-binary.tar.gz"),
    ],
)
def test_the_python_version_is_refused_with_what_to_get_and_never_opened(
    tmp_path: Path, files: list[str], archive: str
) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "was-run",)

    folder = tmp_path / "python"
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(pickle.dumps(Trap()))
    for format_ in ("auto", "arrays"):
        with pytest.raises(BadData, match=f"pickles, which are never opened.*binary version, {archive}"):
            opened_cifar(folder, tmp_path, format=format_)
    assert not (tmp_path / "was-run").exists()
