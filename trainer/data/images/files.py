"""The image files of a dataset, with the part and the class of each, from their names alone.

For `trainer.data.images.source`.

    chips/cats/1.jpg            a sub-folder a class, with any folders in it
    chips/train/cats/1.jpg      or such sub-folders in train, and in test and validation (or val)

No file is opened here. Paths are bytes, as Linux has them, and lie in one block: a million take some 60 MB.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from trainer.data.interfaces import Indices
from trainer.data.listing import reading, special_file_error
from trainer.data.location import Location
from trainer.errors import BadData

_SUFFIXES = (b".jpg", b".jpeg", b".png", b".bmp", b".gif")
_PARTS = {b"train": "train", b"test": "test", b"validation": "validation", b"val": "validation"}


@dataclass(frozen=True)
class ImageFiles:
    """The files of one part, in an order that is the same on every host."""

    location: Location
    names: bytes  # the path of each below the location, one after the other
    ends: Indices  # where each of them ends
    classes: tuple[str, ...]
    class_of: NDArray[np.int32]  # (file,): positions in `classes`

    def __len__(self) -> int:
        return len(self.ends)

    def name(self, number: int) -> str:
        """The name of a file in messages: its path below the location."""
        return _text(self.path_below(number))

    def path(self, number: int) -> bytes:
        """The whole path of a file, in the form of its filesystem."""
        return os.path.join(os.fsencode(self.location.path), self.path_below(number))

    @cached_property
    def digest(self) -> str:
        """Identifies the listing: two hosts that see the same files have the same digest."""
        return hashlib.sha256(self.names + self.ends.tobytes()).hexdigest()[:16]

    def path_below(self, number: int) -> bytes:
        """The path of a file below the location."""
        return self.names[self.ends[number - 1] if number else 0 : self.ends[number]]


def image_files(location: Location, data_roots: Sequence[bytes]) -> dict[str, ImageFiles]:
    """The files of each part; `data_roots` as `os.path.realpath` has them. Raises `BadData`."""
    all_names = list(_Walk(location, data_roots).names() if location.local else _remote_names(location))
    images = [name for name in all_names if name.lower().endswith(_SUFFIXES)]
    parts, depth = _by_part(images, location.source)
    used = sum(map(len, parts.values()))
    if used < len(all_names):
        print(
            f"{location.source}: {len(all_names) - len(images)} files are no images, and {len(images) - used} images "
            "lie in no folder of a class: they are left out",
            flush=True,
        )
    return {part: _of_class_at(depth, location, names) for part, names in parts.items()}


def _by_part(images: list[bytes], source: str) -> tuple[dict[str, list[bytes]], int]:
    """The images in the folder of a class, by part; and how many folders below the location that folder is."""
    if not any(name.startswith(b"train/") and name.count(b"/") > 1 for name in images):
        in_class = [name for name in images if b"/" in name]
        if not in_class:
            raise BadData(f"{source!r} holds no image (.jpg, .jpeg, .png, .bmp, .gif) in a sub-folder for its class")
        return {"train": in_class}, 0
    parts: dict[str, list[bytes]] = {}
    folders: dict[str, bytes] = {}
    for name in images:
        folder, *path_below = name.split(b"/")
        if not path_below:
            continue
        part = _PARTS.get(folder)
        if part is None or folders.setdefault(part, folder) != folder:
            beside = _text(folders[part] if part else b"train")
            raise BadData(
                f"{source!r} holds images both in {beside}/ and in {_text(folder)}/: its parts are train, test and "
                f"validation (or val); name a folder in it, as in '{source}/train'"
            )
        if len(path_below) > 1:
            parts.setdefault(part, []).append(name)
    return parts, 1


def _of_class_at(depth: int, location: Location, names: list[bytes]) -> ImageFiles:
    folders = [name.split(b"/", depth + 1)[depth] for name in names]
    classes = sorted(set(folders))
    number_of = {folder: number for number, folder in enumerate(classes)}
    return ImageFiles(
        location,
        names=b"".join(names),
        ends=np.fromiter(accumulate(map(len, names)), np.int64, len(names)),
        classes=tuple(map(_text, classes)),
        class_of=np.fromiter((number_of[folder] for folder in folders), np.int32, len(folders)),
    )


def _remote_names(location: Location) -> Iterator[bytes]:
    above = location.path.rstrip("/") + "/"
    with reading(location, location.path):
        paths = sorted(location.filesystem.find(location.path))
    for path in paths:
        *folders, file = os.fsencode(path.removeprefix(above)).split(b"/")
        if path.startswith(above) and not _is_hidden_file(file) and not any(map(_is_hidden_folder, folders)):
            yield b"/".join([*folders, file])


@dataclass(frozen=True)
class _Walk:
    """Walks a folder of this host; follows links to folders, each once, as long as they stay below the data roots."""

    location: Location
    data_roots: Sequence[bytes]
    _walked: set[tuple[int, int]] = field(default_factory=set)

    def names(self) -> Iterator[bytes]:
        """The files below the location, links to files among them. Raises `BadData`."""
        ahead = [b""]
        while ahead:
            folder = ahead.pop()
            files, folders = self._entries(folder)
            yield from files
            ahead += reversed(folders)

    def _entries(self, folder: bytes) -> tuple[list[bytes], list[bytes]]:
        """(files, folders) in a folder, sorted; nothing where it has been walked already."""
        path = os.path.join(os.fsencode(self.location.path), folder)
        try:
            status = os.stat(path)
            with os.scandir(path) as entries:
                entries_by_name = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise BadData(f"{self.location.source}: cannot list {_text(folder) or 'it'}: {error.strerror}") from None
        if (status.st_dev, status.st_ino) in self._walked:
            return [], []
        self._walked.add((status.st_dev, status.st_ino))
        files, folders = [], []
        for entry in entries_by_name:
            if entry.is_symlink() and os.path.isdir(entry.path) and not _is_hidden_folder(entry.name):
                self._check_link(entry.path, folder + entry.name)
                folders.append(folder + entry.name + b"/")
            elif entry.is_dir(follow_symlinks=False):
                folders += [] if _is_hidden_folder(entry.name) else [folder + entry.name + b"/"]
            elif _is_hidden_file(entry.name):
                continue
            elif entry.is_symlink() or entry.is_file():
                files.append(folder + entry.name)
            elif entry.name.lower().endswith(_SUFFIXES):
                raise special_file_error(self.location, os.fsdecode(entry.path))
        return files, folders

    def _check_link(self, path: bytes, name: bytes) -> None:
        if not is_below(os.path.realpath(path), self.data_roots):
            raise BadData(f"{self.location.source}: the folder {_text(name)} leads outside the data roots")


def is_below(path: bytes, data_roots: Sequence[bytes]) -> bool:
    """Whether a real path lies below one of the real paths of the data roots."""
    return any(os.path.commonpath([path, root]) == root for root in data_roots)


def _is_hidden_file(name: bytes) -> bool:
    return name.startswith(b".")


def _is_hidden_folder(name: bytes) -> bool:
    return name.startswith((b".", b"_"))  # __MACOSX; cameras begin files with _


def _text(name: bytes) -> str:
    """A name that people can read and JSON can carry, from any bytes."""
    return name.decode("utf-8", "backslashreplace")
