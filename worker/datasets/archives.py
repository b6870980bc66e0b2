"""Unpacks an untrusted archive.

Run contained, by `worker.datasets.unpacking`.

It writes only files and folders, below one new folder: no links, no devices, no names that lead outside, and no name
twice. It counts the bytes as it writes them, and does not trust the sizes that the archive states.

    Refused     the archive will not be unpacked; the text is for its sender
"""

import errno
import os
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

from jobs.runtime.files import make_private

_CHUNK_BYTES = 1024 * 1024
_MOST_PARTS = 16  # depth of nested folders
_LONGEST_PART_BYTES = 255
_LONGEST_NAME_BYTES = 1024
_ALWAYS_ALLOWED_BYTES = 64 * 1024 * 1024  # allowed even for the smallest archive
_LONGEST_TAR_HEADER_BYTES = 64 * 1024  # names and times, which are read into memory as a whole
_ZIP_ENCRYPTED, _ZIP_UTF8 = 0x1, 0x800
_ZIP_HEADER_BYTES = 30
# Single files that are not archives get these names.
_SINGLE_FILES = {".npz": "data.npz", ".parquet": "data.parquet", ".pq": "data.parquet"}
_NAMED_CHARACTERS = 100


class Refused(Exception):
    """The archive will not be unpacked."""


@dataclass(frozen=True)
class Limits:
    """Limits on the content of an archive."""

    max_bytes: int
    max_entries: int
    max_ratio: float  # unpacked bytes for each byte of the archive
    least_free_bytes: int = 0  # that must stay free on the disk
    least_free_files: int = 0

    def bytes_of(self, archive_bytes: int) -> int:
        """How many unpacked bytes an archive of this size may have."""
        return min(self.max_bytes, max(_ALWAYS_ALLOWED_BYTES, int(self.max_ratio * archive_bytes)))


class Entry(NamedTuple):
    """A file of an archive, or a folder, which has no content."""

    name: str
    content: IO[bytes] | None


def unpack(archive: Path, filename: str, into: Path, limits: Limits) -> None:
    """Unpack into a new folder. Raises `Refused`, and `OSError`, for example if the disk is full."""
    into.mkdir(mode=0o700)
    single_file = _SINGLE_FILES.get(Path(filename).suffix.lower())
    counter = _Counter(limits, archive.stat().st_size)
    if single_file is not None:
        with archive.open("rb") as content:
            _write(into / single_file, content, counter)
        return
    tree = _Tree(limits.max_entries)
    try:
        for entry in _entries(archive, counter, limits):
            parts = parts_of(entry.name)
            if parts:
                tree.add(parts, is_folder=entry.content is None, name=entry.name)
                _write_entry(into.joinpath(*parts), entry.content, counter)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise Refused(f"the archive cannot be read: {str(error) or type(error).__name__}") from error
    if not tree.files:
        raise Refused("there is no file in the archive")


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of an entry's name: its folders from the top, then the file. Raises `Refused`."""
    parts = tuple(part for part in name.removesuffix("/").split("/") if part != ".")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":") or "\\" in name:
        raise _name_refused(name, "is absolute, or written with backslashes")
    if ".." in parts:
        raise _name_refused(name, "leads outside the archive")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise _name_refused(name, "has control characters, or is not UTF-8")
    if "" in parts and parts != ("",):
        raise _name_refused(name, "has an empty part")
    if len(parts) > _MOST_PARTS:
        raise _name_refused(name, f"is more than {_MOST_PARTS} folders deep")
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > _LONGEST_PART_BYTES or len(name.encode()) > _LONGEST_NAME_BYTES:
        raise _name_refused(name, "is too long")
    return tuple(filter(None, parts))


def _name_refused(name: str, reason: str) -> Refused:
    shown = name.encode("utf-8", "backslashreplace").decode()[:_NAMED_CHARACTERS]
    return Refused(f"the archive will not be unpacked: the name {shown!r} {reason}")


class _Counter:
    """Counts the unpacked bytes. Raises `Refused`."""

    def __init__(self, limits: Limits, archive_bytes: int) -> None:
        self._limit = limits.bytes_of(archive_bytes)
        self._limits = limits
        self._bytes = 0

    def require_space(self, path: Path | int, size_bytes: int = 0) -> None:
        """Raises `OSError` as on a full disk, if less would be free after these bytes than must stay free.

        `path` is a file or a folder on that disk, or a descriptor.
        """
        disk = os.statvfs(path)
        few_bytes = disk.f_bavail * disk.f_frsize - size_bytes < self._limits.least_free_bytes
        few_files = disk.f_files > 0 and disk.f_favail < self._limits.least_free_files
        if few_bytes or few_files:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def add(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._limit:
            raise Refused(f"the archive will not be unpacked: more than {self._limit} bytes come out of it")


class _Tree:
    """The names so far, as short digests. Two names that differ only in case would be one file on some hosts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._exact: dict[bytes, bytes] = {}  # folders
        self.files: set[bytes] = set()

    def add(self, parts: tuple[str, ...], *, is_folder: bool, name: str) -> None:
        folders = parts if is_folder else parts[:-1]
        for depth in range(len(folders), 0, -1):
            folded, exact = _folded(folders[:depth]), _digest("/".join(folders[:depth]))
            if self._exact.setdefault(folded, exact) != exact or folded in self.files:
                raise _name_refused(name, "occurs twice, in upper and lower case or as a file and a folder")
        if not is_folder:
            folded = _folded(parts)
            if folded in self.files or folded in self._exact:
                raise _name_refused(name, "occurs twice")
            self.files.add(folded)
        if len(self.files) + len(self._exact) > self._limit:
            raise Refused(f"the archive will not be unpacked: it has more than {self._limit} files and folders")


def _folded(parts: tuple[str, ...]) -> bytes:
    return _digest(unicodedata.normalize("NFC", "/".join(parts)).casefold())


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _write_entry(path: Path, content: IO[bytes] | None, counter: _Counter) -> None:
    if content is None:
        make_private(path)
        counter.require_space(path)
        return
    make_private(path.parent)
    _write(path, content, counter)


def _write(path: Path, content: IO[bytes], counter: _Counter) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb", buffering=0) as output:
        counter.require_space(output.fileno())  # an empty file takes an inode too
        while chunk := content.read(_CHUNK_BYTES):
            counter.add(len(chunk))
            counter.require_space(output.fileno(), len(chunk))
            view = memoryview(chunk)
            while view:
                view = view[output.write(view) :]


def _entries(archive: Path, counter: _Counter, limits: Limits) -> Iterator[Entry]:
    with archive.open("rb") as file:
        head = file.read(512)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        yield from _zip_entries(archive, limits)
    elif head[:2] == b"\x1f\x8b":
        import gzip

        with gzip.open(archive) as stream:
            yield from _tar_entries(stream, counter)
    elif head[:4] == b"\x28\xb5\x2f\xfd":
        import pyarrow as pa

        try:
            with pa.CompressedInputStream(pa.OSFile(str(archive)), "zstd") as stream:
                yield from _tar_entries(stream, counter)
        except pa.ArrowException as error:
            raise Refused(f"the archive cannot be read: {error}") from error
    elif head[257:262] == b"ustar":
        with archive.open("rb") as stream:
            yield from _tar_entries(stream, counter)
    elif head.strip(b"\0"):  # else it is empty: the end of a tar archive is blocks of zeros
        raise Refused("the file is not a known kind of archive: .zip, .tar, .tar.gz, .tar.zst, or one .npz or .parquet")


def _zip_entries(path: Path, limits: Limits) -> Iterator[Entry]:
    try:
        archive = zipfile.ZipFile(path)
    except UnicodeDecodeError:
        raise Refused("the archive will not be unpacked: a name in it is not UTF-8") from None
    with archive:
        entries = archive.infolist()
        if len(entries) > limits.max_entries:
            raise Refused(f"the archive will not be unpacked: it has more than {limits.max_entries} files and folders")
        _check_overlaps(archive, entries)
        for entry in entries:
            name = _name_in_zip(entry)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _name_refused(name, "belongs to a link, a device, or something else that is not a file")
            if entry.flag_bits & _ZIP_ENCRYPTED:
                raise _name_refused(name, "belongs to an encrypted file")
            if name.endswith("/"):
                yield Entry(name, None)
            else:
                with archive.open(entry) as content:
                    yield Entry(name, content)


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """The whole name, read as UTF-8. Not all tools mark it as UTF-8, and some cut it at a NUL."""
    if entry.flag_bits & _ZIP_UTF8:
        return entry.orig_filename
    try:
        return entry.orig_filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        raise _name_refused(entry.orig_filename, "is not UTF-8") from None


def _check_overlaps(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Refuse entries that share their bytes, because a small archive could then be a large tree."""
    by_offset = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in by_offset), archive.start_dir][1:]
    for entry, end in zip(by_offset, ends, strict=True):
        if entry.header_offset + _ZIP_HEADER_BYTES + entry.compress_size > end:
            raise _name_refused(entry.orig_filename, "belongs to a file that shares its bytes with another")


class _CheckedHeader(tarfile.TarInfo):
    """A header of a tar archive. Refused if `tarfile` would read it all into memory, or stop without an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_CheckedHeader":
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise Refused(f"the archive is damaged or incomplete: {error}") from error
        is_member = header.isfile() or header.isdir() or header.islnk() or header.issym() or header.isdev()
        if not is_member and header.size > _LONGEST_TAR_HEADER_BYTES:
            raise Refused("the archive will not be unpacked: one of its headers is too long")
        return header


class _Counted:
    """A stream that counts every byte, including headers and skipped content."""

    def __init__(self, stream: Any, counter: _Counter) -> None:
        self._stream = stream
        self._counter = counter

    def read(self, size: int) -> bytes:
        chunk: bytes = self._stream.read(size)
        self._counter.add(len(chunk))
        return chunk


def _tar_entries(stream: Any, counter: _Counter) -> Iterator[Entry]:
    counted: Any = _Counted(stream, counter)
    with tarfile.open(fileobj=counted, mode="r|", tarinfo=_CheckedHeader, encoding="utf-8") as archive:
        while (member := archive.next()) is not None:
            if member.isdir():
                yield Entry(f"{member.name}/", None)
            elif not member.isreg() or member.issparse():
                raise _name_refused(
                    member.name, "belongs to a link, a device, a sparse file, or something else that is not a file"
                )
            else:
                yield Entry(member.name, archive.extractfile(member))
            archive.members = []  # type: ignore[attr-defined] # it would keep them all
