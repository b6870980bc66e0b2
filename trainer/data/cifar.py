"""Reading CIFAR-10 and CIFAR-100 in their own binary version: <https://www.cs.toronto.edu/~kriz/cifar.html>.

    data_batch_1.bin ...   test_batch.bin   batches.meta.txt          CIFAR-10: a byte for the class, then the pixels
    train.bin              test.bin         fine_label_names.txt      CIFAR-100: a byte for one of 20 groups before it

The pixels are 32x32 bytes of red, then of green, then of blue. The Python version of the same data is refused: it is a
pickle, and to open a pickle is to run what is in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import basename

import numpy as np
from numpy.typing import NDArray

from trainer.data.arrays import Arrays
from trainer.data.interfaces import Collection
from trainer.data.listing import reading
from trainer.data.location import Location
from trainer.errors import BadData

_SIDE, _CHANNELS = 32, 3
_PIXELS = _SIDE * _SIDE * _CHANNELS
_BATCH = re.compile(r"data_batch_([1-9][0-9]?)\.bin")
_LONGEST_NAMES = 64 * 1024  # bytes of a file of names


@dataclass(frozen=True)
class _Version:
    """One of the two datasets: the files of its parts, and how a record begins."""

    train: re.Pattern[str]
    test: str
    names: str
    label_bytes: int  # the last of them is the class


_VERSIONS = (
    _Version(_BATCH, "test_batch.bin", "batches.meta.txt", 1),
    _Version(re.compile(r"train\.bin"), "test.bin", "fine_label_names.txt", 2),
)
# What is in a folder of the Python version, and the archive to get instead.
_PICKLES = {
    frozenset({"data_batch_1", "batches.meta"}): "cifar-10-binary.tar.gz",
    frozenset({"train", "test", "meta"}): "cifar-100-binary.tar.gz",
}


def is_cifar(paths: Iterable[str]) -> bool:
    """Whether the files of a folder are those of CIFAR."""
    return _version(paths) is not None


def is_file_of_cifar(path: str) -> bool:
    """Whether a file is named as one with samples of CIFAR."""
    name = basename(path)
    return any(version.train.fullmatch(name) or name == version.test for version in _VERSIONS)


def better_than_pickles(paths: Iterable[str]) -> str | None:
    """The archive to use in place of CIFAR's Python version; None if the files are not that."""
    names = set(map(basename, paths))
    return next((archive for files, archive in _PICKLES.items() if files <= names), None)


def collections(location: Location, paths: Iterable[str]) -> dict[str, Collection]:
    """The training part and, if it is there, the test part. Raises `BadData`."""
    version, paths = _version(paths), list(paths)
    assert version is not None
    train, test, names = _files(version, location, paths)
    classes = _class_names(location, names) if names else None
    parts: dict[str, Collection] = {"train": _part(location, version, train, classes)}
    if test:
        parts["test"] = _part(location, version, [test], classes)
    return parts


def files_at(location: Location, paths: Iterable[str]) -> list[str]:
    """The files that a training reads."""
    version, paths = _version(paths), list(paths)
    assert version is not None
    train, test, names = _files(version, location, paths)
    return [*train, *(path for path in (test, names) if path)]


def _version(paths: Iterable[str]) -> _Version | None:
    names = set(map(basename, paths))
    for version in _VERSIONS:
        # `train.bin` alone may be anything.
        if any(map(version.train.fullmatch, names)) and (
            version.train is _BATCH or names & {version.test, version.names}
        ):
            return version
    return None


def _files(version: _Version, location: Location, paths: list[str]) -> tuple[list[str], str | None, str | None]:
    """The files of the training part in their order, that of the test part, and that of the names."""
    by_name = {basename(path): path for path in paths}
    train = [name for name in by_name if version.train.fullmatch(name)]
    if version.train is _BATCH:
        train = [f"data_batch_{number}.bin" for number in range(1, max(map(_number, train)) + 1)]
        missing = [name for name in train if name not in by_name]
        if missing:
            raise BadData(f"{location.source}: there is no {missing[0]}, and there are later batches")
    return [by_name[name] for name in train], by_name.get(version.test), by_name.get(version.names)


def _number(name: str) -> int:
    batch = _BATCH.fullmatch(name)
    assert batch is not None
    return int(batch[1])


def _class_names(location: Location, path: str) -> list[str]:
    with reading(location, path):
        content = location.filesystem.cat_file(path, 0, _LONGEST_NAMES)
        names = [line.strip() for line in content.decode().splitlines()]
    return [name for name in names if name]


def _part(location: Location, version: _Version, paths: list[str], classes: list[str] | None) -> Arrays:
    records = np.concatenate([_records(location, version, path, classes) for path in paths])
    labels = records[:, version.label_bytes - 1]
    pixels = records[:, version.label_bytes :].reshape(-1, _CHANNELS, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    name = f"{location.source}, {basename(paths[0])}" + (" and others" if len(paths) > 1 else "")
    named = labels if classes is None else np.array(classes)[labels]
    return Arrays(name, np.ascontiguousarray(pixels), named, value_range=(0.0, 255.0))


def _records(location: Location, version: _Version, path: str, classes: list[str] | None) -> NDArray[np.uint8]:
    """The records of a file (record, byte)."""
    with reading(location, path):
        content = location.filesystem.cat_file(path)
    size = version.label_bytes + _PIXELS
    if not content or len(content) % size:
        raise BadData(
            f"{location.source}: {basename(path)} has {len(content)} bytes, which are no whole records of {size}: is it"
            " cut off?"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    largest = int(records[:, version.label_bytes - 1].max())
    if classes is not None and largest >= len(classes):
        raise BadData(
            f"{location.source}: {basename(path)} has a label {largest}, and {version.names} names "
            f"{len(classes)} classes"
        )
    return records
