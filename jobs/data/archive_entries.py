"""The files and folders in an untrusted archive, one after the other, with limits on what comes out of it.

Used by `jobs.data.archives`. Links, devices and encrypted files are refused.
"""

import errno
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from jobs.data.archive_names import Refused, name_refused

_ALWAYS_ALLOWED_BYTES = 64 * 1024 * 1024  # allowed even for the smallest archive
_LONGEST_TAR_HEADER_BYTES = 64 * 1024  # names and times, which are read into memory as a whole
_ZIP_ENCRYPTED, _ZIP_UTF8 = 0x1, 0x800
_ZIP_HEADER_BYTES = 30


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


class Content(Protocol):
    """The content of a file. Reading it counts its bytes."""

    def read(self, size: int) -> bytes:
        """At most so many of the next bytes; none at the end."""


class Entry(NamedTuple):
    """A file of an archive, or a folder, which has no content."""

    name: str
    content: Content | None
    is_executable: bool = False


class Counter:
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

    @property
    def total_bytes(self) -> int:
        """What was counted so far."""
        return self._bytes

    def add(self, count: int) -> None:
        """Count so many bytes more."""
        self._bytes += count
        if self._bytes > self._limit:
            raise Refused(f"the archive will not be unpacked: more than {self._limit} bytes come out of it")


def entries(archive: Path, counter: Counter, limits: Limits) -> Iterator[Entry]:
    """Every entry of an archive. Raises `Refused`, and what the readers of archives raise."""
    with archive.open("rb") as file:
        head = file.read(512)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        yield from _zip_entries(archive, counter, limits)
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
        raise Refused(
            "the file is not a known kind of archive: .zip, .tar, .tar.gz, .tar.zst, or one .npz, .parquet or .tfrecord"
        )


def _zip_entries(path: Path, counter: Counter, limits: Limits) -> Iterator[Entry]:
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
                raise name_refused(name, "belongs to a link, a device, or something else that is not a file")
            if entry.flag_bits & _ZIP_ENCRYPTED:
                raise name_refused(name, "belongs to an encrypted file")
            if name.endswith("/"):
                yield Entry(name, None)
            else:
                with archive.open(entry) as content:
                    yield Entry(name, Counted(content, counter), bool(entry.external_attr >> 16 & stat.S_IXUSR))


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """The whole name, read as UTF-8. Not all tools mark it as UTF-8, and some cut it at a NUL."""
    if entry.flag_bits & _ZIP_UTF8:
        return entry.orig_filename
    try:
        return entry.orig_filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        raise name_refused(entry.orig_filename, "is not UTF-8") from None


def _check_overlaps(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Refuse entries that share their bytes, because a small archive could then be a large tree."""
    by_offset = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in by_offset), archive.start_dir][1:]
    for entry, end in zip(by_offset, ends, strict=True):
        if entry.header_offset + _ZIP_HEADER_BYTES + entry.compress_size > end:
            raise name_refused(entry.orig_filename, "belongs to a file that shares its bytes with another")


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


class Counted:
    """A stream that counts every byte, including headers and skipped content."""

    def __init__(self, stream: Any, counter: Counter) -> None:
        self._stream = stream
        self._counter = counter

    def read(self, size: int) -> bytes:
        """At most so many of the next bytes, counted."""
        chunk: bytes = self._stream.read(size)
        self._counter.add(len(chunk))
        return chunk


def _tar_entries(stream: Any, counter: Counter) -> Iterator[Entry]:
    counted: Any = Counted(stream, counter)
    with tarfile.open(fileobj=counted, mode="r|", tarinfo=_CheckedHeader, encoding="utf-8") as archive:
        while (member := _next(archive)) is not None:
            if member.isdir():
                yield Entry(f"{member.name}/", None)
            elif not member.isreg() or member.issparse():
                raise name_refused(
                    member.name, "belongs to a link, a device, a sparse file, or something else that is not a file"
                )
            else:
                yield Entry(member.name, archive.extractfile(member), bool(member.mode & stat.S_IXUSR))
            archive.members = []  # type: ignore[attr-defined] # it would keep them all


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next member. `tarfile` fails without a word of its own in what describes the holes of a sparse file."""
    try:
        return archive.next()
    except ValueError as error:
        raise Refused(
            "the archive is damaged, or has a sparse file that cannot be read: pack it again, without -S of tar"
        ) from error
