"""CIFAR's own binary files."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.datasets import open_dataset
from tests.unit.trainer.reading import read
from trainer.data.formats import files_of
from trainer.data.interfaces import Host
from trainer.data.opening import Dataset
from trainer.errors import BadData

NAMES = ["airplane", "automobile", "bird"]
FINE = ["apple", "aquarium_fish", "baby", "bear"]


def images(samples: int, seed: int = 0) -> NDArray[np.uint8]:
    """Images (sample, 32, 32, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (samples, 32, 32, 3), dtype=np.uint8)


def write(path: Path, pixels: NDArray[np.uint8], *labels: NDArray[Any]) -> None:
    """A file as the site of CIFAR describes it: labels, then the red, green and blue bytes, of each image."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    path.write_bytes(np.concatenate([*(label.astype(np.uint8)[:, None] for label in labels), planes], axis=1).tobytes())


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number in (1, 2):
        write(folder / f"data_batch_{number}.bin", images(30, number), np.arange(30) % 3)
    write(folder / "test_batch.bin", images(6, 9), np.arange(6) % 3)
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    (folder / "readme.html").write_text("<html>")
    return folder


def opened(folder: Path, scratch: Path, **fields: Any) -> Dataset:
    return open_dataset({"source": folder.name, **fields}, scratch, data_roots=[str(folder.parent)])


def test_cifar_10_has_its_images_classes_and_test_part(ten: Path, tmp_path: Path) -> None:
    dataset = opened(ten, tmp_path)
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
    assert opened(ten, tmp_path).facts.classes == ("0", "1", "2")


def test_cifar_100_has_its_fine_classes(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    write(folder / "train.bin", images(40), np.arange(40) % 2, np.arange(40) % 4)
    write(folder / "test.bin", images(4, 9), np.zeros(4), np.arange(4))
    (folder / "fine_label_names.txt").write_text("\n".join(FINE))
    (folder / "coarse_label_names.txt").write_text("fruit\nothers\n")
    dataset = opened(folder, tmp_path, format="arrays", image_size=[16, 16])
    assert (dataset.facts.classes, dataset.facts.shape) == (tuple(FINE), (16, 16, 3))
    assert read(dataset.test)[1].tolist() == [0, 1, 2, 3]


def cut(folder: Path) -> None:
    content = (folder / "data_batch_2.bin").read_bytes()
    (folder / "data_batch_2.bin").write_bytes(content[:-1])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (cut, r"data_batch_2.bin has 92189 bytes, which are no whole records of 3073"),
        (lambda folder: (folder / "data_batch_1.bin").write_bytes(b""), "data_batch_1.bin has 0 bytes"),
        (lambda folder: (folder / "data_batch_1.bin").unlink(), "there is no data_batch_1.bin, and there are later"),
        (
            lambda folder: (folder / "batches.meta.txt").write_text("cat\ndog\n"),
            "data_batch_1.bin has a label 2, and batches.meta.txt names 2 classes",
        ),
        (lambda folder: (folder / "batches.meta.txt").write_bytes(b"\xff\xfe"), "cannot read batches.meta.txt"),
        (
            lambda folder: write(folder / "test_batch.bin", images(2), np.array([0, 200])),
            "test_batch.bin has a label 200",
        ),
    ],
)
def test_damaged_files_are_bad_data(ten: Path, tmp_path: Path, damage: Callable[[Path], object], sentence: str) -> None:
    damage(ten)
    with pytest.raises(BadData, match=sentence):
        opened(ten, tmp_path)


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
            opened(folder, tmp_path, format=format_)
    assert not (tmp_path / "was-run").exists()
