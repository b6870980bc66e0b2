"""Walks and opens below an open folder, without following a link, whatever somebody does to the names meanwhile.

For folders in which a script writes, or may have written, while code with more rights reads or changes what is there.
Standard library only.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.files import NotRegular, kind_of

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe would wait for its writer
_SWAPPED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True)
class Below:
    """A folder in a walk. `descriptor` is open until the next one is asked for."""

    path: str  # below the top, with a slash at its end; empty: the top
    descriptor: int
    folders: Sequence[str]  # the walk enters them next
    others: Sequence[str]  # names of what is no folder


def open_folder(path: str | Path) -> int:
    """A descriptor of a folder, which is no link; the caller closes it. Raises `OSError`."""
    return os.open(path, FOLDER)


def walk(top: int, *, leave_out: bool = False) -> Iterator[Below]:
    """An open folder and all folders below it, however deep. Raises `OSError` for what was changed meanwhile.

    With `leave_out` a folder that went, became something else or cannot be opened is left out instead.
    """
    opened, path = os.open(".", FOLDER, dir_fd=top), ""
    above: list[tuple[os.stat_result, list[str], str]] = []
    try:
        below = _below(path, opened)
        while True:
            yield below
            rest = [*below.folders]
            while not rest or (inner := _entered(rest.pop(), opened, leave_out=leave_out)) is None:
                if rest:
                    continue
                if not above:
                    return
                outer = os.open("..", FOLDER, dir_fd=opened)  # one descriptor is enough, however deep
                os.close(opened)
                opened = outer
                status, rest, path = above.pop()
                if not os.path.samestat(os.fstat(opened), status):
                    raise OSError(errno.ESTALE, "a folder was moved while it was walked", path)
            name, descriptor = inner
            above.append((os.fstat(opened), rest, path))
            os.close(opened)
            opened, path = descriptor, f"{path}{name}/"
            below = _below(path, opened)
    finally:
        os.close(opened)


def _below(path: str, opened: int) -> Below:
    folders: list[str] = []
    others: list[str] = []
    with os.scandir(opened) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return Below(path, opened, folders, others)


def _entered(name: str, folder: int, *, leave_out: bool) -> tuple[str, int] | None:
    try:
        return name, os.open(name, FOLDER, dir_fd=folder)
    except OSError as error:
        if leave_out:
            return None
        if error.errno in _SWAPPED:
            raise FileNotFoundError(error.errno, "it is no folder any more", name) from None
        raise


def open_below(top: int, path: str) -> int:
    """A descriptor for reading a regular file by its path below an open folder; the caller closes it.

    Raises `NotRegular`, and `OSError` also for a link on the way.
    """
    *folders, name = path.split("/")
    opened = os.dup(top)
    try:
        for part in folders:
            inner = os.open(part, FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        descriptor = os.open(name, FILE, dir_fd=opened)
    finally:
        os.close(opened)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegular(f"it is {kind_of(mode)}, not a file")
    return descriptor
