"""The bytes to upload, at any offset: of a file, or of a folder as a .tar, which is never written to the disk.

The same folder gives the same bytes each time, so an interrupted upload continues where it stopped. Used by
`hora.service.uploads`; `hora.service.code_folders` makes archives of code from the same pieces.
"""

import hashlib
import os
import stat
import tarfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from hora.errors import HoraError

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)


class UploadSource(Protocol):
    """Bytes to upload."""

    @property
    def filename(self) -> str:
        """The name of the upload. It differs for another content and for another path."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """The `size` bytes from `offset` on, fewer at the end. Raises `HoraError`."""


class TarFile(NamedTuple):
    """A file for a .tar."""

    name: str  # its path in the archive
    size_bytes: int
    content: Path | bytes
    mode: int = 0o600  # only whether its owner may execute it is read


class _Piece(NamedTuple):
    """A header, or the content of a file, with zeros up to the next block."""

    start: int
    length: int  # without the zeros
    content: Path | bytes


class FileSource:
    """One file: an archive, or a file of arrays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for its writer
            raise HoraError(f"{path} is neither a file nor a folder.")
        self.size_bytes = status.st_size
        self.filename = f"{_digest([(str(path.resolve()), status.st_size, status.st_mtime_ns)])}-{_plain(path.name)}"

    def read(self, offset: int, size: int) -> bytes:
        """See `UploadSource.read`."""
        return _read(self._path, offset, min(size, self.size_bytes - offset))


class TarSource:
    """Files as a .tar, in the order given. Without their times and owners: equal files give equal bytes."""

    def __init__(self, files: Iterable[TarFile]) -> None:
        self._pieces: list[_Piece] = []
        end = 0
        for file in files:
            header = _header(file)
            self._pieces.append(_Piece(end, len(header), header))
            end += len(header)
            self._pieces.append(_Piece(end, file.size_bytes, file.content))
            end += -(-file.size_bytes // _BLOCK) * _BLOCK
        self._pieces.append(_Piece(end, len(_END), _END))
        self._starts = [piece.start for piece in self._pieces]
        self.size_bytes = end + len(_END)

    def read(self, offset: int, size: int) -> bytes:
        """See `UploadSource.read`."""
        stop = min(offset + size, self.size_bytes)
        content = bytearray()
        number = bisect_right(self._starts, offset) - 1
        while offset + len(content) < stop:
            piece = self._pieces[number]
            following = self._starts[number + 1] if number + 1 < len(self._pieces) else self.size_bytes
            begin, end = offset + len(content) - piece.start, min(stop, following) - piece.start
            content += _of_piece(piece, begin, min(end, piece.length))
            content += bytes(end - begin - max(0, min(end, piece.length) - begin))  # up to the next block
            number += 1
        return bytes(content)


class FolderSource(TarSource):
    """A folder as a .tar, without hidden files. Links to files are followed, links to folders are not."""

    def __init__(self, folder: Path) -> None:
        files, identities = [], [(str(folder.resolve()), 0, 0)]
        for path in _files(folder):
            status = path.stat()
            name = path.relative_to(folder).as_posix()
            files.append(TarFile(name, status.st_size, path))
            identities.append((name, status.st_size, status.st_mtime_ns))
        super().__init__(files)
        self.files = len(files)
        self.filename = f"{_digest(identities)}-{_plain(folder.resolve().name)}.tar"


def upload_source(path: Path) -> UploadSource:
    """The bytes to upload for a path on this machine. Raises `HoraError` if there are none."""
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
    if isinstance(piece.content, bytes):
        return piece.content[begin:end]
    return _read(piece.content, begin, end - begin)


def _read(path: Path, offset: int, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = os.pread(file.fileno(), size, offset)
    except OSError as error:
        raise HoraError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) != size:
        raise HoraError(f"{path} became shorter during the upload. Start again.")
    return content


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, sorted. Hidden files are left out: no job reads them."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            path = Path(here, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _header(file: TarFile) -> bytes:
    info = tarfile.TarInfo(file.name)
    info.size, info.mode = file.size_bytes, file.mode
    try:
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    except UnicodeError:
        raise HoraError(f"The file name {file.name!a} is not UTF-8. Rename the file.") from None


def _digest(identities: list[tuple[str, int, int]]) -> str:
    return hashlib.sha256(repr(identities).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _plain(name: str) -> str:
    """A name with only the characters that an upload's name may have."""
    return "".join(character if character.isalnum() or character in "._- " else "_" for character in name)[-200:]
