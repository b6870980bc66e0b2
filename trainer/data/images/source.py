"""Folders of images, a sub-folder a class. Opened by `trainer.data.formats`.

A survey looks at the header of every file, and decodes files that look odd. So damaged files are known and left out
before the first step.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jobs.model.spec import DatasetSpec
from jobs.model.tasks import CLASSIFICATION, Task
from jobs.runtime.files import NotRegular, kind_of, open_regular
from trainer.data.cache import DiskCache
from trainer.data.images.files import ImageFiles, image_files, is_below
from trainer.data.images.headers import Damaged, Header, check, check_file
from trainer.data.indexed import IndexedPart
from trainer.data.interfaces import Collection, Host, Indices, Selection, Shape, Survey, Target
from trainer.data.location import Location
from trainer.data.shuffling import selected
from trainer.errors import BadData

# TensorFlow takes seconds to import, and for most files the header is enough.
if TYPE_CHECKING:
    from trainer.data.images.decode import ImageShape, Pixels, Sources

_LOOKED_AT_ONCE = 256  # files that a thread looks at before it asks for more
_LEAST_THREADS = 4  # that look at files, also with fewer cores: most of the time they wait
_FETCHING_THREADS = 16
_BATCHES_AHEAD = 2
_NAMED_SIZES = 3


def collections(location: Location, spec: DatasetSpec, host: Host) -> dict[str, Collection]:
    """The parts of a folder of images: train, and where they lie apart test and validation. Raises `BadData`."""
    data_roots = _real_roots(host)
    cache = DiskCache(host.cache_dir, int(spec.cache_limit_gb * 1e9)) if spec.cache == "disk" else None
    parts = image_files(location, data_roots)
    names = {part: location.source if len(parts) == 1 else f"{location.source} ({part})" for part in parts}
    return {part: ImageFolder(names[part], files, data_roots, cache, host.threads) for part, files in parts.items()}


def files_at(location: Location, host: Host) -> list[tuple[str, str]]:
    """The images of all parts: the name of each below the location, and its path. Raises `BadData`."""
    return [
        (os.fsdecode(files.path_below(number)), os.fsdecode(files.path(number)))
        for files in image_files(location, _real_roots(host)).values()
        for number in range(len(files))
    ]


def _real_roots(host: Host) -> list[bytes]:
    return [os.path.realpath(os.fsencode(root)) for root in host.data_roots if "://" not in root]


@dataclass(frozen=True)
class ImageFolder:
    """The files of one part; `threads` decode them."""

    name: str
    files: ImageFiles
    data_roots: Sequence[bytes]
    cache: DiskCache | None
    threads: int

    @property
    def is_local(self) -> bool:
        """Whether the files are on this host, mounted ones included."""
        return self.files.location.local is not None

    @property
    def task(self) -> Task:
        """The folder of an image is its class."""
        return CLASSIFICATION

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Look at every file of this rank's share."""
        own_numbers = np.arange(rank, len(self.files), ranks)
        shares = [own_numbers[first : first + _LOOKED_AT_ONCE] for first in range(0, len(own_numbers), _LOOKED_AT_ONCE)]
        threads = max(self.threads, _LEAST_THREADS if self.is_local else _FETCHING_THREADS)
        damaged: dict[int, str] = {}
        shapes: set[Shape] = set()
        with ThreadPoolExecutor(threads) as pool:
            for share, seen in zip(shares, pool.map(self._look_at, shares), strict=True):
                for number, shape in zip(share.tolist(), seen, strict=True):
                    if isinstance(shape, str):
                        damaged[number] = shape
                    else:
                        shapes.add(shape)
        whole = np.setdiff1d(own_numbers, list(damaged), assume_unique=True)
        times = np.bincount(self.files.class_of[whole], minlength=len(self.files.classes)).tolist()
        return Survey(
            samples=len(whole),
            labels={name: count for name, count in zip(self.files.classes, times, strict=True) if count},
            shapes=sorted(shapes)[:_NAMED_SIZES],
            damaged={self.files.name(number): reason for number, reason in damaged.items()},
            details={
                "dtype": "uint8",
                "value_range": [0.0, 255.0],
                "encoded": True,
                "digest": self.files.digest,
                # `merged` keeps the entry of each rank, because each has its own name.
                f"channel_{rank}": max((shape[2] for shape in shapes), default=1),
                f"damaged_{rank}": list(damaged),
            },
        )

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The requested size, or the size of all files. One channel if all files are grey, else three."""
        self._check_files(survey)
        channel = max(value for key, value in survey.details.items() if key.startswith("channel_"))
        return *survey.size_of(image_size, name=self.name), channel

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected files among those that are not damaged."""
        damaged = [number for key, value in survey.details.items() if key.startswith("damaged_") for number in value]
        whole = np.setdiff1d(np.arange(len(self.files)), damaged, assume_unique=True)
        height, width, channel = target.shape
        reader = ImageReader(self, (height, width, channel), resize=survey.sizes != [(height, width)])
        # A class whose files are all damaged does not count.
        number_of = np.array([target.label_of.get(name, -1) for name in self.files.classes], np.int32)
        return IndexedPart(reader, number_of[self.files.class_of], whole[selected(len(whole), selection)])

    def fetch(self, number: int) -> bytes:
        """The content of a file, from the cache if there is one. Raises the filesystem's errors."""
        filesystem, path = self.files.location.filesystem, os.fsdecode(self.files.path(number))
        content: bytes = self.cache.read(filesystem, path) if self.cache else filesystem.cat_file(path)
        return content

    def _look_at(self, numbers: Indices) -> "list[ImageShape | str]":
        """The shape of each file, or why it cannot be read."""
        return [self._look(number) for number in numbers.tolist()]

    def _look(self, number: int) -> "ImageShape | str":
        try:
            if self.is_local:
                return _look_at_file(self.files.path(number), self.data_roots)
            content = self.fetch(number)
            return _shape(check(content), content)
        except Damaged as damaged:
            return str(damaged)
        except OSError as error:
            # On other filesystems a failure may be temporary. The next attempt must find the same files damaged.
            if self.is_local or isinstance(error, FileNotFoundError | PermissionError):
                return f"cannot be read: {error.strerror or error}"
            raise

    def _check_files(self, survey: Survey) -> None:
        if self.files.digest != survey.details["digest"]:
            raise BadData(f"{self.name}: this host sees other files than the one of rank 0: give all hosts the same")


@dataclass(frozen=True)
class ImageReader:
    """Reads files as pixels of one shape; see `trainer.data.images.decode` for how."""

    folder: ImageFolder
    shape: "ImageShape"
    resize: bool

    def read(self, batches: Iterator[Indices]) -> "Iterator[tuple[Indices, Pixels]]":
        """See `Reader.read`. The decoder reads local files itself. Threads fetch all others."""
        from trainer.data.images.decode import decoded

        folder = self.folder
        here = folder.is_local and folder.cache is None
        return decoded(
            self._paths(batches) if here else self._contents(batches),
            kind="paths" if here else "contents",
            shape=self.shape,
            resize=self.resize,
            threads=folder.threads,
            name_of=self._name,
        )

    def _paths(self, batches: Iterator[Indices]) -> "Iterator[Sources]":
        return ((indices, [self._path(number) for number in indices.tolist()]) for indices in batches)

    def _path(self, number: int) -> bytes:
        """The path of a file for the decoder, which opens it by itself: what was a file may be a pipe by now."""
        path = self.folder.files.path(number)
        with suppress(OSError):  # the decoder says what else is wrong
            mode = os.stat(path).st_mode
            if not stat.S_ISREG(mode):
                raise BadData(f"{self._name(number)} is {kind_of(mode)} now, not a file")
        return path

    def _contents(self, batches: Iterator[Indices]) -> "Iterator[Sources]":
        pool = ThreadPoolExecutor(_FETCHING_THREADS)
        ahead: deque[tuple[Indices, Iterator[bytes]]] = deque()
        try:
            for indices in batches:
                ahead.append((indices, pool.map(self._fetch, indices.tolist())))
                if len(ahead) > _BATCHES_AHEAD:
                    first, contents = ahead.popleft()
                    yield first, list(contents)
            for first, contents in ahead:
                yield first, list(contents)
        finally:
            pool.shutdown(cancel_futures=True)

    def _fetch(self, number: int) -> bytes:
        try:
            return self.folder.fetch(number)
        except (FileNotFoundError, PermissionError, NotRegular) as error:
            raise BadData(f"{self._name(number)} cannot be read: {error.strerror or error}") from None

    def _name(self, number: int) -> str:
        return f"{self.folder.name}: {self.folder.files.name(number)}"


def _shape(header: Header, content: bytes) -> "ImageShape":
    if not header.suspect:
        return header.height, header.width, header.channel
    from trainer.data.images.decode import shape_of

    return shape_of(content)


def _look_at_file(path: bytes, data_roots: Sequence[bytes]) -> "ImageShape":
    """Raises `Damaged`, `OSError`."""
    with open(_open(path, data_roots), "rb", buffering=0) as file:
        header = check_file(file.fileno())
        return _shape(header, file.read() if header.suspect else b"")


def _open(path: bytes, data_roots: Sequence[bytes]) -> int:
    """A file, or the target of a link below the data roots."""
    if os.path.islink(path):
        path = os.path.realpath(path)
        if not is_below(path, data_roots):
            raise Damaged("leads outside the data roots")
    try:
        return open_regular(path, follow=False)
    except NotRegular:
        raise Damaged("is no file") from None
