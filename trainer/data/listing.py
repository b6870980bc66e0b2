"""Lists a location by names, and turns errors of reading into `BadData`. Used by the formats."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from posixpath import basename, relpath

from jobs.model.os_errors import without_paths
from jobs.runtime.files import kind_of
from trainer.data.location import Location, is_within
from trainer.errors import BadData

_HIDDEN = {"directory": (".", "_")}  # such as __MACOSX; but cameras begin the names of files with _


@dataclass(frozen=True)
class Listing:
    """A single file, or the files and folders in a folder except hidden ones."""

    is_folder: bool
    files: tuple[str, ...]  # paths as the filesystem wants them, sorted
    folders: tuple[str, ...] = ()
    special_files: tuple[str, ...] = ()  # named pipes, sockets, devices

    def with_suffix(self, suffixes: tuple[str, ...]) -> list[str]:
        """The files whose names end with it, in any case."""
        return [path for path in self.files if path.lower().endswith(suffixes)]


def listing(location: Location, data_roots: Sequence[str], path: str | None = None) -> Listing:
    """Look at a location, or at a folder below it; links that lead out of the data roots are left out.

    A link to a folder is listed as that folder. Raises `BadData`.
    """
    path = location.path if path is None else path
    with reading(location, path):
        # On a web server every URL is a file, as `info` has it, and a folder only for `isdir`.
        kind = "directory" if location.filesystem.isdir(path) else location.filesystem.info(path)["type"]
        if kind != "directory":
            is_file = kind == "file"
            return Listing(False, (path,) if is_file else (), special_files=() if is_file else (path,))
        entries = location.filesystem.ls(path, detail=True)
    files, folders, special_files = [], [], []
    for entry in entries:
        name = entry["name"].rstrip("/")
        kind = entry["type"]
        hidden = basename(name).startswith(_HIDDEN.get(kind, "."))
        if hidden or name == path.rstrip("/"):  # object stores list the folder too
            continue
        if entry.get("islink"):
            kind = _kind_of_link(name, data_roots)
        if kind == "directory":
            folders.append(os.path.realpath(name) if entry.get("islink") else name)
        elif kind == "file":
            files.append(name)
        elif kind == "other" and not entry.get("islink"):
            special_files.append(name)
    return Listing(True, tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(special_files)))


def files_below(
    location: Location, data_roots: Sequence[str], is_data: Callable[[str], bool]
) -> list[tuple[str, str, int]]:
    """(path below it, path, bytes) of each data file at any depth of a location, sorted. Raises `BadData`.

    `is_data` gets the name of a file. A location that is a file is data, by whatever name; its path below is empty.
    Files and folders with hidden names are left out.
    """
    root = location.path.rstrip("/")
    found = location.filesystem.find(root, detail=True)
    if list(found) == [root] or not found:
        info = location.filesystem.info(root)
        return [("", root, info["size"] or 0)] if info["type"] == "file" else []
    files = []
    for path, info in found.items():
        relative = path.removeprefix(f"{root}/")
        hidden = any(name.startswith((".", "_")) for name in relative.split("/"))
        if relative == path or hidden or not is_data(basename(relative)):  # a server may list what is elsewhere
            continue
        if location.local and not is_within(path, data_roots):
            raise BadData(f"{location.source}: {relative} is a link to a file outside the data roots")
        if info["type"] == "other" and os.path.exists(path) and not os.path.isfile(path):
            raise special_file_error(location, path)
        files.append((relative, path, info["size"] or 0))
    return sorted(files)


def special_file_error(location: Location, path: str) -> BadData:
    """The error about something that has the name of a data file and is none: a named pipe, a socket or a device."""
    name = relpath(path, location.path)
    named = location.source if name == "." else f"{location.source}/{name}"
    try:
        kind = kind_of(os.stat(path).st_mode)
    except OSError:  # it was removed meanwhile
        kind = "something else"
    return BadData(f"{named!r} is {kind}, not a file: remove it")


def _kind_of_link(path: str, data_roots: Sequence[str]) -> str:
    if not is_within(path, data_roots):
        return "outside"
    return "directory" if os.path.isdir(path) else "file" if os.path.isfile(path) else "other"


@contextmanager
def reading(location: Location, path: str) -> Iterator[None]:
    """Turn any error of a filesystem or a decoder into `BadData`: each has errors of its own."""
    try:
        yield
    except BadData:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or without_paths(str(error)) or type(error).__name__
        within = "" if path == location.path else f"{basename(path)} in "
        raise BadData(f"cannot read {within}{location.source!r}: {why}") from error
