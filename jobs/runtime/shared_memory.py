"""The shared memory of a host (`/dev/shm`): the folder of an attempt, and what the user of scripts has there.

A script has a folder of its own there, where the host allows mounts. Elsewhere all scripts share it. Standard library
only.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from jobs.runtime.processes import pids
from jobs.runtime.script_user import uid_of

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library makes shared memory

FileKey = tuple[int, int]  # device, inode


def new_folder() -> str:
    """A path for the scripts of an attempt on one host. Nobody can guess it, and make the folder first."""
    return f"{SHARED_MEMORY}/hora-{token_hex(16)}"


def files_of(uid: int) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files of a user, by path."""
    with suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == uid and stat.S_ISREG(status.st_mode):
                    yield entry.path, status


def remove_unused(user: str | None) -> None:
    """Remove the files of the user of scripts that no process of it has open or mapped: what ended scripts left.

    Where this process may not see what the others use, all stay until there are no others.
    """
    uid = uid_of(user)
    left = [] if uid is None else list(files_of(uid))
    if uid is None or not left:
        return
    try:
        used = _used_by(uid)
    except PermissionError:
        return
    for path, status in left:
        if (status.st_dev, status.st_ino) not in used:
            with suppress(OSError):
                os.unlink(path)


def _used_by(uid: int) -> set[FileKey]:
    """The files that processes of a user have open or mapped. Raises `PermissionError`."""
    used = set()
    for pid in pids():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if os.stat(f"/proc/{pid}").st_uid != uid:
                continue
            for folder in ("fd", "map_files"):
                for name in os.listdir(f"/proc/{pid}/{folder}"):
                    with suppress(FileNotFoundError):
                        status = Path(f"/proc/{pid}/{folder}/{name}").stat()
                        used.add((status.st_dev, status.st_ino))
    return used
