"""The built-in datasets, by name. The data roots do not matter for them. See `trainer.data.formats`."""

import gzip
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from jobs.runtime.data_roots import fashion_mnist as folder_of_fashion_mnist
from trainer.data import idx
from trainer.data.arrays import Arrays
from trainer.data.interfaces import Collection, Indices
from trainer.data.listing import listing
from trainer.data.location import Location, local_files
from trainer.errors import BadData

_DIGITS_TEST, _DIABETES_TEST = 297, 92
_SPLIT_SEED = 20_190_701  # fixed for ever: the test part must not follow the job's seed


def digits(data_roots: Sequence[str]) -> dict[str, Collection]:
    """The UCI digits out of scikit-learn's files, without importing it: that takes 1 s."""
    rows = np.loadtxt(_lines("digits", "digits.csv.gz"), delimiter=",", dtype=np.uint8)
    pixels, labels = rows[:, :-1].reshape(-1, 8, 8, 1), rows[:, -1]
    return {
        part: Arrays("digits", pixels[rows], labels[rows], value_range=(0.0, 16.0))
        for part, rows in _parts(len(labels), test=_DIGITS_TEST).items()
    }


def diabetes(data_roots: Sequence[str]) -> dict[str, Collection]:
    """The diabetes data of Efron, Hastie, Johnstone and Tibshirani (2004) out of scikit-learn's files."""
    table = np.loadtxt(_lines("diabetes", "diabetes_data_raw.csv.gz"), dtype=np.float32)
    progress = np.loadtxt(_lines("diabetes", "diabetes_target.csv.gz"), dtype=np.float32)[:, np.newaxis]
    return {
        part: Arrays("diabetes", table[rows], progress[rows], task="regression")
        for part, rows in _parts(len(table), test=_DIABETES_TEST).items()
    }


def _lines(name: str, file: str) -> list[str]:
    """The lines of a file that scikit-learn carries. Raises `BadData`."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise BadData(f"{name}: scikit-learn, which carries them, is not installed on this host")
    path = Path(package.submodule_search_locations[0], "datasets", "data", file)
    try:
        return gzip.decompress(path.read_bytes()).decode().splitlines()
    except OSError as error:
        raise BadData(f"{name}: cannot read {path}: {error.strerror}") from None


def _parts(samples: int, *, test: int) -> dict[str, Indices]:
    shuffled = np.random.default_rng(_SPLIT_SEED).permutation(samples)
    return {"train": shuffled[:-test], "test": shuffled[-test:]}


def fashion_mnist(data_roots: Sequence[str]) -> dict[str, Collection]:
    """Fashion-MNIST as IDX files, from a folder `fashion-mnist` below a data root or from Debian's package."""
    folder = folder_of_fashion_mnist(data_roots)
    if folder is None:
        raise BadData("fashion-mnist is not on this host: install the Debian package dataset-fashion-mnist")
    location = Location("fashion-mnist", local_files(), str(folder))
    return idx.collections(location, list(listing(location, [location.path]).files))


REGISTERED: dict[str, Callable[[Sequence[str]], dict[str, Collection]]] = {
    "diabetes": diabetes,
    "digits": digits,
    "fashion-mnist": fashion_mnist,
}
