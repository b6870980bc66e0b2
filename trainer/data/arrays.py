"""Collections that are arrays in memory: the registered datasets, `.npz` and IDX files. NumPy only."""

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.order import selected
from trainer.data.parts import Collection, Features, Selection, Shape, Survey, Target
from trainer.exits import BadData

_DIGITS_TEST, _DIGITS_SEED = 297, 20_190_701  # fixed for ever: the test part must not follow the job's seed
_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package puts it


@dataclass(frozen=True)
class Arrays:
    """Samples and their labels in memory, `max_pixel` being the value that stands for 1.0."""

    name: str
    features: Features
    labels: NDArray[Any]  # (sample,): integers or strings
    max_pixel: float

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Every rank has all of it in memory, so the first one speaks for all."""
        survey = Survey(label_kind="integer" if self.labels.dtype.kind in "iu" else "string")
        if rank == 0:
            values, times = np.unique(self.labels, return_counts=True)
            survey.samples = len(self.labels)
            survey.labels = {str(value): int(count) for value, count in zip(values, times, strict=True)}
            survey.shapes = [self.features.shape[1:]]
            survey.details = {"dtype": str(self.features.dtype), "value_range": [0.0, self.max_pixel]}
        return survey

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """As it lies there, or brought to the size that is asked for."""
        (shape,) = survey.shapes
        return shape if image_size is None else (*image_size, shape[-1])

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected samples."""
        labels = np.array([target.label_of[str(label)] for label in self.labels.tolist()], np.int32)
        return IndexedPart(ArrayReader(self.features), labels, selected(len(labels), selection))


def digits(data_roots: Sequence[str]) -> dict[str, Collection]:
    """The UCI digits out of scikit-learn's files, without importing it: that takes 1 s."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise BadData("digits: scikit-learn, which carries them, is not installed on this host")
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    rows = np.loadtxt(gzip.decompress(_read(path, "digits")).decode().splitlines(), delimiter=",", dtype=np.uint8)
    pixels, labels = rows[:, :-1].reshape(-1, 8, 8, 1), rows[:, -1].astype(np.int32)
    shuffled = np.random.default_rng(_DIGITS_SEED).permutation(len(labels))
    chosen = {"train": shuffled[:-_DIGITS_TEST], "test": shuffled[-_DIGITS_TEST:]}
    return {part: Arrays("digits", pixels[rows], labels[rows], max_pixel=16) for part, rows in chosen.items()}


def fashion_mnist(data_roots: Sequence[str]) -> dict[str, Collection]:
    """Fashion-MNIST as IDX files, from a folder `fashion-mnist` below a data root or from Debian's package."""
    folders = [*(Path(root, "fashion-mnist") for root in data_roots if "://" not in root), _FASHION_MNIST]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise BadData("fashion-mnist is not on this host: install the Debian package dataset-fashion-mnist")
    parts = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        pixels = _read_idx(folder / f"{prefix}-images-idx3-ubyte.gz", dimensions=3)[..., np.newaxis]
        labels = _read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", dimensions=1).astype(np.int32)
        if len(pixels) != len(labels):
            raise BadData(f"fashion-mnist: {part} has {len(pixels)} images and {len(labels)} labels")
        parts[part] = Arrays("fashion-mnist", pixels, labels, max_pixel=255)
    return {**parts}


def _read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """An IDX file of bytes: 0, 0, 8, dimensions, each size as a big-endian uint32, then the values."""
    try:
        content = gzip.decompress(_read(path, "fashion-mnist"))
        magic, *shape = struct.unpack_from(f">{1 + dimensions}I", content)
        if magic != 0x0800 + dimensions:
            raise ValueError(f"magic number {magic:#x}")
        return np.frombuffer(content, np.uint8, offset=4 * (1 + dimensions)).reshape(shape)
    except (ValueError, EOFError, struct.error, zlib.error, gzip.BadGzipFile) as error:
        raise BadData(f"fashion-mnist: {path} is damaged: {error}") from None


def _read(path: Path, dataset: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadData(f"{dataset}: cannot read {path}: {error.strerror}") from None
