"""The datasets, and which samples a rank sees when. Used by the session and the loop; NumPy only.

The order of an epoch depends on the seed and the epoch alone, never on the number of ranks: a global batch is the
same samples on 1 rank and on n, and a run that goes on from a checkpoint sees what it would have seen.
"""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.plan import DatasetSizes, split_sizes
from jobs.spec import DatasetSpec
from trainer.exits import BadData

Pixels = NDArray[np.uint8]  # (sample, height, width, channel)
Labels = NDArray[np.int32]  # (sample,)
Indices = NDArray[np.int64]

_DIGITS_TEST, _DIGITS_SEED = 297, 20_190_701  # fixed for ever: the test part must not follow the job's seed
_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package puts it
_SPLIT, _ORDER = 1, 2  # streams of the job's seed


@dataclass(frozen=True)
class Part:
    """Samples with their labels."""

    pixels: Pixels
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Indices) -> "Part":
        """The samples at `indices`, in that order."""
        return Part(self.pixels[indices], self.labels[indices])


@dataclass(frozen=True)
class Dataset:
    """A dataset split into its parts; `max_pixel` is the value that stands for 1.0."""

    train: Part
    validation: Part
    test: Part
    classes: int
    max_pixel: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channel) of a sample."""
        height, width, channel = self.train.pixels.shape[1:]
        return height, width, channel

    @property
    def sizes(self) -> DatasetSizes:
        """Samples of each part, before `fraction`."""
        return DatasetSizes(train=len(self.train), validation=len(self.validation), test=len(self.test))


@dataclass(frozen=True)
class Source:
    """A dataset as it comes: what may be trained on, and the test part that was held out for ever."""

    trainable: Part
    test: Part
    max_pixel: int


def open_dataset(spec: DatasetSpec, *, seed: int, data_roots: Sequence[str]) -> Dataset:
    """Open the dataset and hold out its validation share, by the seed. Raises `BadData`."""
    opener = _SOURCES.get(spec.source)
    if opener is None:
        raise BadData(f"dataset.source: there is no dataset {spec.source!r}; there are: {', '.join(_SOURCES)}")
    if isinstance(spec.validation, str):
        raise BadData("dataset.validation: a separate source is not supported; give a share")
    source = opener([Path(root) for root in data_roots])
    train_size, _ = split_sizes(len(source.trainable), spec.validation)
    shuffled = np.random.default_rng((seed, _SPLIT)).permutation(len(source.trainable))
    return Dataset(
        train=source.trainable.take(shuffled[:train_size]),
        validation=source.trainable.take(shuffled[train_size:]),
        test=source.test,
        classes=int(source.trainable.labels.max()) + 1,
        max_pixel=source.max_pixel,
    )


def global_batches(samples: int, *, global_batch: int, seed: int, epoch: int, first: int = 0) -> Iterator[Indices]:
    """The samples of each global batch of an epoch without end, from batch number `first` on.

    Passes over the data follow each other without a gap, each in its own order by (seed, epoch, pass); how many
    batches make an epoch is the plan's business.
    """
    if not samples:
        return
    passes = count((first * global_batch) // samples)
    orders = (np.random.default_rng((seed, _ORDER, epoch, number)).permutation(samples) for number in passes)
    ahead = next(orders)[(first * global_batch) % samples :]
    while True:
        while len(ahead) < global_batch:
            ahead = np.concatenate([ahead, next(orders)])
        yield ahead[:global_batch]
        ahead = ahead[global_batch:]


def train_batches(
    part: Part, *, samples: int, per_rank: int, rank: int, ranks: int, seed: int, epoch: int, first: int = 0
) -> Iterator[Part]:
    """This rank's slice of every global batch, from batch number `first` on, without end.

    Indexed out of memory when asked for: a batch of 64 takes some 10 µs, less than handing it between threads.
    """
    for batch in global_batches(samples, global_batch=per_rank * ranks, seed=seed, epoch=epoch, first=first):
        yield part.take(batch[rank * per_rank : (rank + 1) * per_rank])


def evaluation_batches(
    part: Part, *, per_rank: int, rank: int, ranks: int
) -> Iterator[tuple[Pixels, Labels, NDArray[np.float32]]]:
    """This rank's share of a part in which every sample counts once, as (pixels, labels, weights).

    Every rank gets equally many batches of equal size; what pads them has weight 0.
    """
    for start in range(rank * per_rank, len(part) + rank * per_rank, per_rank * ranks):
        indices = np.arange(start, start + per_rank)
        chosen = part.take(np.minimum(indices, len(part) - 1))
        yield chosen.pixels, chosen.labels, (indices < len(part)).astype(np.float32)


def _open_digits(data_roots: Sequence[Path]) -> Source:
    """The UCI digits out of scikit-learn's files, without importing it: that takes 1 s."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise BadData("digits: scikit-learn, which carries them, is not installed on this host")
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    rows = np.loadtxt(gzip.decompress(_read(path, "digits")).decode().splitlines(), delimiter=",", dtype=np.uint8)
    everything = Part(rows[:, :-1].reshape(-1, 8, 8, 1), rows[:, -1].astype(np.int32))
    shuffled = np.random.default_rng(_DIGITS_SEED).permutation(len(everything))
    return Source(everything.take(shuffled[:-_DIGITS_TEST]), everything.take(shuffled[-_DIGITS_TEST:]), max_pixel=16)


def _open_fashion_mnist(data_roots: Sequence[Path]) -> Source:
    """Fashion-MNIST as IDX files, from a folder `fashion-mnist` below a data root or from Debian's package."""
    folders = [*(root / "fashion-mnist" for root in data_roots), _FASHION_MNIST]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise BadData("fashion-mnist is not on this host: install the Debian package dataset-fashion-mnist")
    parts = {
        name: Part(
            _read_idx(folder / f"{name}-images-idx3-ubyte.gz", dimensions=3)[..., np.newaxis],
            _read_idx(folder / f"{name}-labels-idx1-ubyte.gz", dimensions=1).astype(np.int32),
        )
        for name in ("train", "t10k")
    }
    for name, part in parts.items():
        if len(part.pixels) != len(part.labels):
            raise BadData(f"fashion-mnist: {name} has {len(part.pixels)} images and {len(part.labels)} labels")
    return Source(parts["train"], parts["t10k"], max_pixel=255)


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


_SOURCES: dict[str, Callable[[Sequence[Path]], Source]] = {
    "digits": _open_digits,
    "fashion-mnist": _open_fashion_mnist,
}
