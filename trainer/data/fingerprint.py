"""Identifies one state of some data by the names and all bytes of its files. Used by `trainer.inspection`.

Two copies in different places have the same fingerprint. If a byte is changed, or a file is renamed, added or removed,
the fingerprint is another one. Hidden files do not count, because no run reads them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from posixpath import basename, relpath

from trainer.data import idx
from trainer.data.listing import listing, reading
from trainer.data.location import Location

_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of some data, and the size of the data."""

    sha256: str
    files: int
    bytes: int


def fingerprint_of(locations: Sequence[Location], data_roots: Sequence[str], *, threads: int) -> Fingerprint:
    """The fingerprint of the data at these locations. Reads all of it. Raises `BadData`.

    It is the SHA-256 over a line for each file: its name below the location, its size and the SHA-256 of its bytes,
    in the order of the names.
    """
    files = [
        (f"{number}/{name}", location, path)
        for number, location in enumerate(locations)
        for name, path in _files(location, data_roots)
    ]
    files.sort(key=lambda file: file[0].encode("utf-8", "surrogateescape"))
    total, size_bytes = hashlib.sha256(), 0
    with ThreadPoolExecutor(threads) as pool:  # hashing lets other threads run
        for (name, _, _), (size, digest) in zip(
            files, pool.map(lambda file: _read(file[1], file[2]), files), strict=True
        ):
            total.update(f"{name}\0{size}\0{digest}\n".encode("utf-8", "surrogateescape"))
            size_bytes += size
    return Fingerprint(total.hexdigest(), len(files), size_bytes)


def _files(location: Location, data_roots: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name below the location, and the path, of every file that is not hidden; one file alone has no name."""
    entries = listing(location, data_roots)
    if not entries.is_folder:
        yield from _with_companions(location, data_roots)
        return
    visited: set[str] = set()  # a link may lead back up
    folders = [location.path]
    while folders:
        folder = folders.pop()
        if folder in visited:
            continue
        visited.add(folder)
        entries = listing(location, data_roots, folder)
        yield from ((relpath(path, location.path), path) for path in entries.files)
        folders += entries.folders


def _with_companions(location: Location, data_roots: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The one file. For IDX also the other files beside it, because its labels are among them."""
    if not idx.is_idx(location.path):
        yield "", location.path
        return
    folder = location.path.rpartition("/")[0]
    for path in listing(location, data_roots, folder).files:
        if idx.is_idx(path):
            yield basename(path), path


def _read(location: Location, path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with reading(location, path), location.filesystem.open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
