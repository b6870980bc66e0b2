"""`cache: disk`: raw files kept on this host's disk under a size limit. Used by the readers of Parquet and of images.

All ranks and jobs of a host share one folder. The name of a file in it is the digest of its source. A file is always
whole: it is written as NAME-BYTES.part and then renamed. Two kinds of locks (flock: the kernel frees them when their
holder dies):

    NAME-BYTES.part   held by the process that fetches this file; the others wait for it, and fetch nothing
    lock              held for a moment to admit and to evict, and while any file of the folder is made, renamed or
                      removed; `used` beside it has the bytes admitted so far, of these files and no others

At the limit, files that nobody has used for an hour are evicted, the least recently used first. If there are none, a
new file is not admitted and is read from its source. So a dataset larger than the limit keeps its cached files, and
does not evict each file before it is read again.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from jobs.runtime.files import FULL, make_private

IN_USE_S = 3600.0  # after its last use a file is kept for so long
TOUCH_EVERY_S = 60.0
FULL_FOR_S = 60.0  # if there was no room, nothing is admitted for so long: a search for room lists the folder
FREED_SHARE = 0.1  # of the limit: an eviction makes room for the next files too

_INFOS = 65_536  # the most files whose size and time are remembered
# The fields of a filesystem that differ between two contents of one path.
_VERSIONS = ("mtime", "created", "ETag", "etag", "checksum", "md5Hash", "Content-MD5", "LastModified", "Last-Modified")


@dataclass(frozen=True)
class _Entry:
    """A file as the cache names it."""

    path: Path
    size_bytes: int

    @property
    def part(self) -> Path:
        """The file while it is written. Its name has the size that it will have."""
        return self.path.with_name(f"{self.path.name}-{self.size_bytes}.part")


class DiskCache:
    """Raw files on local disk, shared by all ranks and jobs of the host; its folder is made if it does not exist."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._full_until = 0.0
        self._logged_reasons: set[str] = set()
        self._entry_of = lru_cache(_INFOS)(self._look_up)
        with suppress(OSError):  # `open` reports it
            self._make_folder()

    def read(self, filesystem: Any, path: str) -> bytes:
        """The whole content of a file. Raises what the filesystem raises."""
        with self.open(filesystem, path) as file:
            return file.read()

    def open(self, filesystem: Any, path: str) -> BinaryIO:
        """A file to read and seek in; once open it stays readable after an eviction. Raises as the filesystem does."""
        entry: _Entry | None = self._entry_of(filesystem, path)
        file = _opened(entry) if entry else None
        if file is None and entry and entry.size_bytes <= self._limit_bytes and time.monotonic() >= self._full_until:
            try:
                self._make_folder()
                file = self._fetched(entry, filesystem, path)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self._pause("the disk is full")
        return file or filesystem.open(path, "rb")

    def _make_folder(self) -> None:
        make_private(self._folder)

    def _look_up(self, filesystem: Any, path: str) -> _Entry | None:
        """The entry for a file; None if its size is not known before it is read."""
        info = filesystem.info(path)
        if info.get("size") is None:
            return None
        version = [str(info.get(key)) for key in _VERSIONS]
        text = json.dumps([filesystem.to_json(include_password=False), path, info["size"], version])
        return _Entry(self._folder / hashlib.sha256(text.encode()).hexdigest(), int(info["size"]))

    def _fetched(self, entry: _Entry, filesystem: Any, path: str) -> BinaryIO | None:
        """The file, fetched unless another process has just fetched it. None if there is no room for it."""
        while True:
            with _locked(self._folder / "lock"):
                if file := _opened(entry):
                    return file
                part = _lock_part(entry.part)
                if part and not self._admit(entry):
                    entry.part.unlink()
                    part.close()
                    return None
            if part:
                with part:
                    return self._fetch(entry, filesystem, path)
            _wait_for(entry.part)

    def _fetch(self, entry: _Entry, filesystem: Any, path: str) -> BinaryIO | None:
        """The whole file; None if its source sent fewer bytes than announced."""
        file = None
        try:
            filesystem.get_file(path, str(entry.part))
            if entry.part.stat().st_size == entry.size_bytes:
                file = entry.part.open("rb")
                with _locked(self._folder / "lock"):
                    entry.part.rename(entry.path)
        finally:
            if file is None:
                self._withdraw(entry)
        return file

    def _admit(self, entry: _Entry) -> bool:
        """Count a file's bytes as used, if there is room or can be made; the folder is locked."""
        used_bytes = self._used_bytes()
        if used_bytes is None or used_bytes + entry.size_bytes > self._limit_bytes:
            used_bytes = self._make_room(entry)
        admitted = used_bytes + entry.size_bytes <= self._limit_bytes
        self._write_used(used_bytes + entry.size_bytes * admitted)
        if not admitted:
            self._pause("its limit is reached and all that is in it is in use")
        return admitted

    def _withdraw(self, entry: _Entry) -> None:
        with _locked(self._folder / "lock"):
            entry.part.unlink()
            used_bytes = self._used_bytes()
            if used_bytes is not None:
                self._write_used(used_bytes - entry.size_bytes)

    def _make_room(self, entry: _Entry) -> int:
        """Look at the whole folder, and evict files if needed. Returns the bytes used without the new file."""
        used_bytes, idle = 0, []
        for path in self._folder.iterdir():
            if path == entry.part or path.name in {"lock", "used"}:
                continue
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix != ".part":
                    used_bytes += status.st_size
                    if time.time() - status.st_mtime > IN_USE_S:
                        idle.append((status.st_mtime, status.st_size, path))
                elif not _remove_abandoned(path):
                    used_bytes += int(path.stem.rpartition("-")[2])
        if used_bytes + entry.size_bytes > self._limit_bytes:
            freed_bytes = max(entry.size_bytes, FREED_SHARE * self._limit_bytes)
            for _, size_bytes, path in sorted(idle):
                if used_bytes + freed_bytes <= self._limit_bytes:
                    break
                path.unlink(missing_ok=True)
                used_bytes -= size_bytes
        return used_bytes

    def _used_bytes(self) -> int | None:
        """The bytes as counted, which is never too few; None if they are not known."""
        try:
            return int(Path(self._folder, "used").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _write_used(self, used_bytes: int) -> None:
        Path(self._folder, "used").write_text(f"{max(0, used_bytes):020d}")  # one length: never half of it is new

    def _pause(self, reason: str) -> None:
        """Admit nothing for a while. Log each reason once."""
        self._full_until = time.monotonic() + FULL_FOR_S
        if reason not in self._logged_reasons:
            print(f"warning: disk cache: {reason}; what is not in it is read from its source", flush=True)
            self._logged_reasons.add(reason)


def _opened(entry: _Entry) -> BinaryIO | None:
    """The file, marked as used; None if it is missing or damaged."""
    try:
        file = entry.path.open("rb")
    except FileNotFoundError:
        return None
    status = os.fstat(file.fileno())
    if status.st_size != entry.size_bytes:
        file.close()
        return None
    if time.time() - status.st_mtime > TOUCH_EVERY_S:
        with suppress(OSError):  # a disk that cannot be written can still be read
            os.utime(file.fileno())
    return file


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it does not exist. A file that was removed meanwhile is made again."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file)):
                break
        os.close(file)
    try:
        yield
    finally:
        os.close(file)


def _lock_part(part: Path) -> BinaryIO | None:
    """A file to fetch into, locked until it is closed; None if another process fetches it."""
    file = part.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _wait_for(part: Path) -> None:
    """Return when nobody fetches it any more."""
    with suppress(FileNotFoundError), part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def _remove_abandoned(part: Path) -> bool:
    """Remove the files of killed processes. A file that is being written is locked."""
    file = _lock_part(part)
    if file:
        part.unlink()
        file.close()
    return file is not None
