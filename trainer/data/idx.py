"""Reading IDX files, the format of MNIST: <http://yann.lecun.com/exdb/mnist/>. See `collections`.

Files come in pairs, as `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, plain or with `.gz`.
"""

import gzip
import re
import struct
from math import prod
from posixpath import basename

import numpy as np
from numpy.typing import NDArray

from jobs.model.tasks import AnyTask
from trainer.data.arrays import arrays
from trainer.data.interfaces import Collection
from trainer.data.listing import reading
from trainer.data.location import Location
from trainer.errors import BadData

_NAME = re.compile(r"(?P<prefix>.+)-(?P<kind>images|labels)[-.]idx\d-ubyte(\.gz)?")
_PARTS = {"train": "train", "val": "validation", "validation": "validation", "t10k": "test", "test": "test"}
_GZIP = b"\x1f\x8b"
_BYTES = b"\0\0\x08"  # and then the number of dimensions


def is_idx(path: str) -> bool:
    """Whether a file is named as IDX files are."""
    return _NAME.fullmatch(basename(path)) is not None


def collections(
    location: Location, paths: list[str], image_size: tuple[int, int] | None = None, task: AnyTask = "auto"
) -> dict[str, Collection]:
    """The parts that the files of a folder make up, by their prefixes. Raises `BadData`.

    If `location` is one file of images, that file and its labels are the training part, with any prefix.
    """
    pairs = _pairs(paths)
    by_part = {
        part: _pair(location, prefix, pairs[prefix], image_size, task)
        for prefix, part in _parts(location).items()
        if prefix in pairs
    }
    if "train" not in by_part:
        raise BadData(f"{location.source}: there is no train-images-idx3-ubyte; there are: {', '.join(sorted(pairs))}")
    return by_part


def files_at(location: Location, paths: list[str]) -> list[str]:
    """Those of the files that make up the parts."""
    pairs = _pairs(paths)
    return [path for prefix in _parts(location) for path in pairs.get(prefix, {}).values()]


def _pairs(paths: list[str]) -> dict[str, dict[str, str]]:
    """The file of images and the file of labels, by their prefix."""
    pairs: dict[str, dict[str, str]] = {}
    for path in sorted(paths, reverse=True):  # so that a plain file replaces its .gz
        if name := _NAME.fullmatch(basename(path)):
            pairs.setdefault(name["prefix"], {})[name["kind"]] = path
    return pairs


def _parts(location: Location) -> dict[str, str]:
    """The part that each prefix means there."""
    name = _NAME.fullmatch(basename(location.path))
    return {name["prefix"]: "train"} if name else _PARTS


def _pair(
    location: Location, prefix: str, files: dict[str, str], image_size: tuple[int, int] | None, task: AnyTask
) -> Collection:
    for kind in ("images", "labels"):
        if kind not in files:
            raise BadData(f"{location.source}: there is no file of {prefix}-{kind}")
    images, labels = (read_idx(location, files[kind]) for kind in ("images", "labels"))
    if labels.ndim != 1 or images.ndim not in {2, 3, 4}:
        raise BadData(
            f"{location.source}: {prefix}-images has {images.ndim} dimensions and {prefix}-labels {labels.ndim}: "
            "2 to 4 and 1 are understood"
        )
    return arrays(images, labels, name=f"{location.source}, {prefix}", image_size=image_size, task=task)


def read_idx(location: Location, path: str) -> NDArray[np.uint8]:
    """An IDX file of bytes: 0, 0, 8, dimensions, each size as a big-endian uint32, then the values."""
    with reading(location, path):
        content = location.filesystem.cat_file(path)
        if content[:2] == _GZIP:
            content = gzip.decompress(content)
    if len(content) < 4 or content[:3] != _BYTES:
        raise BadData(f"{location.source}: {basename(path)} does not begin as an IDX file of bytes does")
    dimensions = content[3]
    header = 4 * (1 + dimensions)
    shape = struct.unpack_from(f">{dimensions}I", content.ljust(header, b"\0"), offset=4)
    if len(content) - header != prod(shape):
        raise BadData(
            f"{location.source}: {basename(path)} is damaged: it holds {max(0, len(content) - header)} values, and its "
            f"header says {' x '.join(map(str, shape))}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
