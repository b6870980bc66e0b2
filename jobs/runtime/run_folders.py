"""Who uses the folder of a run, and when its ranks last wrote. Used by `worker.alone` and `hora import`.

FolderInUse     a job trains in the folder, or nobody can say whether one does; the text says which
"""

import errno
import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

_LOCK = "lock"
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP})


class FolderInUse(Exception):
    """The folder of a run cannot be locked."""


def lock(folder: Path, *, makes_file: bool = False) -> int:
    """Lock the folder until this process ends, or closes the descriptor. Raises `FolderInUse`, `OSError`.

    Without `makes_file` it raises `FileNotFoundError` if no job has ever locked the folder.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if makes_file else 0)
    descriptor = os.open(folder / _LOCK, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise FolderInUse(f"a job trains in {folder}") from None
        if error.errno in _NO_LOCKS:
            raise FolderInUse(
                f"the storage of {folder} has no locks (flock), which keep two jobs from training there at a time"
            ) from None
        raise
    return descriptor


def last_written_at(records: Path) -> datetime | None:
    """When the ranks of an attempt last wrote a record, but not later than now. None: they wrote nothing.

    The storage may have another clock.
    """
    if not records.is_dir():
        return None
    written_at = [file.lstat().st_mtime for file in records.iterdir()]
    return datetime.fromtimestamp(min(datetime.now(UTC).timestamp(), max(written_at)), UTC) if written_at else None
