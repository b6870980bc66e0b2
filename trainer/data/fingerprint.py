"""Identifies one state of some data by the names and all bytes of its files. Used by `trainer.inspection`.

Two copies in different places have the same fingerprint. If a byte is changed, or a file is renamed, added or removed,
the fingerprint is another one. Only the files that a training reads count: not a README, and not Parquet's `_metadata`.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trainer.data.listing import reading
from trainer.data.location import Location

Files = tuple[Location, list[tuple[str, str]]]  # a place, and the name below it and the path of each file

_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of some data, and the size of the data."""

    sha256: str
    files: int
    bytes: int


def fingerprint_of(places: Sequence[Files], *, threads: int) -> Fingerprint:
    """The fingerprint of the files at these places. Reads all of them. Raises `BadData`.

    It is the SHA-256 over a line for each file: its name below its place, its size and the SHA-256 of its bytes,
    in the order of the names.
    """
    files = [
        (f"{number}/{name}", location, path) for number, (location, named) in enumerate(places) for name, path in named
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


def _read(location: Location, path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with reading(location, path), location.filesystem.open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
