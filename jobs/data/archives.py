"""Unpacks an untrusted archive.

Run contained: by `worker.datasets.unpacking` for data, by `jobs.data.code_archives` for code.

It writes only files and folders, below one new folder: no links, no devices, no names that lead outside, and no name
twice. It counts the bytes as it writes them, and does not trust the sizes that the archive states.

    Refused     the archive will not be unpacked; the text is for its sender
"""

import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.data.archive_entries import Content, Counted, Counter, Entry, Limits, entries
from jobs.data.archive_names import Refused, Tree, parts_of
from jobs.runtime.files import make_private

__all__ = [
    "Content", "Counter", "Limits", "Refused", "checked_entries", "parts_of", "refusing_damage", "unpack",
    "unpack_tree",
]  # fmt: skip

_CHUNK_BYTES = 1024 * 1024
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError, ValueError,
)  # fmt: skip
# Single files that are not archives get these names.
_SINGLE_FILES = {
    ".npz": "data.npz", ".parquet": "data.parquet", ".pq": "data.parquet",
    **dict.fromkeys((".tfrecord", ".tfrecords", ".tfrec"), "data.tfrecord"),
}  # fmt: skip


def unpack(archive: Path, filename: str, into: Path, limits: Limits) -> None:
    """Unpack data into a new folder. Raises `Refused`, and `OSError`, for example if the disk is full."""
    single_file = _SINGLE_FILES.get(Path(filename).suffix.lower())
    if single_file is None:
        unpack_tree(archive, into, limits)
        return
    into.mkdir(mode=0o700)
    with archive.open("rb") as content:
        counter = Counter(limits, archive.stat().st_size)
        _write(into / single_file, Counted(content, counter), counter, 0o600)


def unpack_tree(archive: Path, into: Path, limits: Limits, *, keep_executable: bool = False) -> None:
    """Unpack into a new folder, which only its owner may use. Raises as `unpack`.

    With `keep_executable` the owner may execute the files that are executable in the archive.
    """
    into.mkdir(mode=0o700)
    counter = Counter(limits, archive.stat().st_size)
    with refusing_damage():
        for parts, entry in checked_entries(archive, counter, limits):
            path = into.joinpath(*parts)
            if entry.content is None:
                make_private(path)
                counter.require_space(path)
            else:
                make_private(path.parent)
                mode = 0o700 if keep_executable and entry.is_executable else 0o600
                _write(path, entry.content, counter, mode)


def checked_entries(archive: Path, counter: Counter, limits: Limits) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Every file and folder of an archive with the parts of its name, as in `parts_of`. At least one is a file.

    Raises `Refused`. Read the content of an entry before you ask for the next one, below `refusing_damage`.
    """
    tree = Tree(limits.max_entries)
    for entry in entries(archive, counter, limits):
        if parts := parts_of(entry.name):
            tree.add(parts, is_folder=entry.content is None, name=entry.name)
            yield parts, entry
    if not tree.files:
        raise Refused("there is no file in the archive")


@contextmanager
def refusing_damage() -> Iterator[None]:
    """Raises `Refused` for what the readers of archives raise."""
    try:
        yield
    except _DAMAGE as error:
        raise Refused(f"the archive cannot be read: {str(error) or type(error).__name__}") from error


def _write(path: Path, content: Content, counter: Counter, mode: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(file, "wb", buffering=0) as output:
        counter.require_space(output.fileno())  # an empty file takes an inode too
        while chunk := content.read(_CHUNK_BYTES):
            counter.require_space(output.fileno(), len(chunk))
            view = memoryview(chunk)
            while view:
                view = view[output.write(view) :]
