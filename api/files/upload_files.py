"""The bytes of an upload on disk, written piece by piece, one request at a time. Called by `api.routes.uploads`.

A piece counts when it is written and flushed and the row says so. A request that breaks off leaves bytes after
the end, and the next one overwrites them.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from api.problems import Problem
from jobs.data.uploads import FOLDER
from jobs.runtime.files import FULL, make_private, size_text, unless_full
from jobs.runtime.settings import Settings
from jobs.runtime.space import measure, problem_of


class DiskFull(Problem):
    """The disk has no room."""

    def __init__(self, detail: str) -> None:
        super().__init__(507, "disk-full", "The disk is full", detail)


class UploadBusy(Problem):
    """Another request is writing to the upload."""

    def __init__(self) -> None:
        super().__init__(409, "upload-busy", "Upload is busy", "another request is sending a piece of this upload")


class UploadFile:
    """The file of an upload, locked until it is closed. Raises `UploadBusy`, `DiskFull`."""

    def __init__(self, datasets_dir: Path, upload_id: str) -> None:
        path = _path(datasets_dir, upload_id)
        with full_disk_refused():
            make_private(path.parent)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise UploadBusy from None

    @property
    def size_bytes(self) -> int:
        """The size of the file, with the bytes of requests that broke off."""
        return os.fstat(self._file).st_size

    @property
    def descriptor(self) -> int:
        """The open file, for reading."""
        return self._file

    def write(self, offset: int, piece: bytes | bytearray) -> None:
        """Write a piece at its offset. Raises `DiskFull`."""
        view = memoryview(piece)
        try:
            with full_disk_refused():
                while view:
                    written = os.pwrite(self._file, view, offset)
                    view, offset = view[written:], offset + written
        finally:
            view.release()

    def cut(self, size_bytes: int) -> None:
        """Cut the file to so many bytes. On a read-only disk they stay: the next piece overwrites them."""
        with unless_full():
            os.ftruncate(self._file, size_bytes)

    def flush(self) -> None:
        """Make sure that all bytes are on the disk. Raises `DiskFull`."""
        with full_disk_refused():
            os.fsync(self._file)

    def close(self) -> None:
        """Unlock the file for other requests."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def require_room(settings: Settings, size_bytes: int) -> None:
    """Refuse an archive or a piece that would bring the disk below its floor. Raises `DiskFull`."""
    spaces = measure(settings, ["datasets"])
    problem = problem_of(spaces)
    if problem is not None:
        raise DiskFull(f"{problem}; nothing is lost: send it again when there is space")
    for space in spaces:
        if space.free_bytes - size_bytes < space.least_bytes:
            raise DiskFull(
                f"{size_bytes} bytes do not fit: {size_text(space.free_bytes)} are free, "
                f"and {size_text(space.least_bytes)} must stay free; nothing is lost: "
                "send them again when there is space"
            )


@contextmanager
def full_disk_refused() -> Iterator[None]:
    """Raises `DiskFull` for the errors of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull("the disk has no room; nothing is lost: send it again when there is space") from error


def remove(datasets_dir: Path, upload_id: str) -> None:
    """Remove an upload's bytes. On a read-only disk they stay, until a worker removes them."""
    with unless_full():
        _path(datasets_dir, upload_id).unlink(missing_ok=True)


def _path(datasets_dir: Path, upload_id: str) -> Path:
    assert upload_id.isalnum()
    return datasets_dir / FOLDER / upload_id
