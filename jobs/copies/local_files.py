"""Files of a store that is a folder: written whole or not at all, and on disk when they are there.

NotNeeded       the caller does not need the transfer any more
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs.runtime.files import make_private

UNFINISHED = ".unfinished-"  # how the names of files begin that are being written
_CHUNK_BYTES = 1024 * 1024

StillNeeded = Callable[[], bool]


class NotNeeded(RuntimeError):
    """The caller does not need the transfer any more."""

    def __init__(self) -> None:
        super().__init__("the transfer is not needed any more")


def write_whole(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file under a temporary name, which becomes its own when all of it is on disk."""
    make_private(path.parent)
    unfinished = path.with_name(f"{UNFINISHED}{os.getpid()}-{time.monotonic_ns():x}")
    try:
        with unfinished.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        unfinished.unlink(missing_ok=True)


def copy_whole(source: Path, path: Path, still_needed: StillNeeded) -> None:
    """Copy a file into the folder. Raises `NotNeeded`."""
    with source.open("rb") as content:
        write_whole(path, lambda file: pour(content, file, still_needed))


def copy_out(source: Path, target: Path, still_needed: StillNeeded) -> None:
    """Copy a file out of the folder; after an error it is not whole. Raises `NotNeeded`."""
    with source.open("rb") as content, target.open("wb") as file:
        pour(content, file, still_needed)


def pour(content: Any, file: Any, still_needed: StillNeeded) -> None:
    """Copy an open file to another one. Raises `NotNeeded`."""
    while chunk := content.read(_CHUNK_BYTES):
        if not still_needed():
            raise NotNeeded
        file.write(chunk)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it. What another process removes meanwhile is left out."""
    shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(_function: object, _path: str, raised: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]
