"""What is uploaded, as bytes at any place of it: a file as it is, or a folder as a .tar that is never written anywhere.

The same folder gives the same bytes each time, so an upload that was cut off goes on where it stopped. Used by
`hora.service.uploads`.
"""

import hashlib
import os
import tarfile
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hora.errors import HoraError

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)


class UploadSource(Protocol):
    """Bytes to upload."""

    @property
    def filename(self) -> str:
        """What the upload is called. UploadSource of another content, or of another place, has another name."""

    @property
    def size_bytes(self) -> int:
        """How many bytes there are."""

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on, `size` of them but at the end. Raises `HoraError`."""


@dataclass(frozen=True)
class _Piece:
    """A header, or the content of a file, with zeros up to the next block."""

    start: int
    length: int  # without the zeros
    header: bytes | None
    path: Path | None


class FileSource:
    """One file: an archive, or a file of arrays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = path.stat()
        self.size_bytes = found.st_size
        self.filename = f"{_digest([(str(path.resolve()), found.st_size, found.st_mtime_ns)])}-{_plain(path.name)}"

    def read(self, offset: int, size: int) -> bytes:
        """See `UploadSource.read`."""
        return _read(self._path, offset, min(size, self.size_bytes - offset))


class FolderSource:
    """A folder with all that is not hidden in it, as a .tar. Links to files are followed, links to folders are not."""

    def __init__(self, folder: Path) -> None:
        self._pieces: list[_Piece] = []
        seen, end = [(str(folder.resolve()), 0, 0)], 0
        for path in _files(folder):
            found = path.stat()
            name = path.relative_to(folder).as_posix()
            seen.append((name, found.st_size, found.st_mtime_ns))
            header = _header(name, found.st_size)
            self._pieces.append(_Piece(end, len(header), header, None))
            end += len(header)
            self._pieces.append(_Piece(end, found.st_size, None, path))
            end += -(-found.st_size // _BLOCK) * _BLOCK
        self._pieces.append(_Piece(end, len(_END), _END, None))
        self._starts = [piece.start for piece in self._pieces]
        self.files = len(seen) - 1
        self.size_bytes = end + len(_END)
        self.filename = f"{_digest(seen)}-{_plain(folder.resolve().name)}.tar"

    def read(self, offset: int, size: int) -> bytes:
        """See `UploadSource.read`."""
        stop = min(offset + size, self.size_bytes)
        read = bytearray()
        number = bisect_right(self._starts, offset) - 1
        while offset + len(read) < stop:
            piece = self._pieces[number]
            following = self._starts[number + 1] if number + 1 < len(self._pieces) else self.size_bytes
            begin, end = offset + len(read) - piece.start, min(stop, following) - piece.start
            read += _of_piece(piece, begin, min(end, piece.length))
            read += bytes(end - begin - max(0, min(end, piece.length) - begin))  # up to the next block
            number += 1
        return bytes(read)


def upload_source(path: Path) -> UploadSource:
    """What is sent of a path of this machine. Raises `HoraError` where there is nothing to send."""
    try:
        if path.is_dir():
            folder = FolderSource(path)
            if not folder.files:
                raise HoraError(f"{path} has no files to upload.")
            return folder
        return FileSource(path)
    except OSError as error:
        raise HoraError(f"{path} cannot be read: {error.strerror}.") from None


def _of_piece(piece: _Piece, begin: int, end: int) -> bytes:
    if begin >= end:
        return b""
    if piece.header is not None:
        return piece.header[begin:end]
    assert piece.path is not None
    return _read(piece.path, begin, end - begin)


def _read(path: Path, offset: int, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = os.pread(file.fileno(), size, offset)
    except OSError as error:
        raise HoraError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) != size:
        raise HoraError(f"{path} became shorter while it was uploaded: start again.")
    return content


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in an order that is the same each time; hidden ones are not read by any job."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            path = Path(here, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    try:
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    except UnicodeError:
        raise HoraError(f"{name!a} is a name that is not UTF-8: rename the file.") from None


def _digest(seen: list[tuple[str, int, int]]) -> str:
    return hashlib.sha256(repr(seen).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _plain(name: str) -> str:
    """A name as an upload may have it, with its ending."""
    return "".join(character if character.isalnum() or character in "._- " else "_" for character in name)[-200:]
