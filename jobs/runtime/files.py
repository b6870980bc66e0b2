"""What Hora makes is for its own user alone and in its own folders. Only regular files are opened.

Also the size of a folder, and sizes in words. Used by every process, ranks too.

NotRegular      the path names a pipe, a device, a socket or a folder; the text says which
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE_UMASK = 0o077  # set by every process when it starts: folders 0700, files 0600

# The host's fault, and over when a person makes room: no block or no inode is left, a quota is reached, or the file
# system was made read-only.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}


@contextmanager
def unless_full() -> Iterator[None]:
    """Leave out what a disk refuses that is full or read-only. For what may as well be left as it is."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise


class NotRegular(OSError):
    """The path names something that is not a regular file. It was not opened."""


def kind_of(mode: int) -> str:
    """What a path names, in words, by the `st_mode` of it."""
    return _KINDS.get(stat.S_IFMT(mode), "a file")


def open_regular(path: str | bytes | Path, *, follow: bool = True) -> int:
    """A descriptor for reading a regular file; the caller closes it. Raises `NotRegular`, and `OSError` as `os.open`.

    It never waits for the writer of a pipe. What was checked is what is read, even if somebody changes the folder.
    Without `follow` a link is refused as well.
    """
    _check_regular(os.stat(path, follow_symlinks=follow))  # some devices notice that they are opened
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    try:
        _check_regular(os.fstat(descriptor))
    except NotRegular:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(f"it is {kind_of(status.st_mode)}, not a file")


def path_of(descriptor: int) -> str:
    """A path that opens the file of a descriptor again, for libraries that open files by themselves."""
    return f"/proc/self/fd/{descriptor}"


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that do not exist, closed to other users whatever the umask is."""
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        make_private(folder.parent)
        with suppress(FileExistsError):  # another process was faster
            folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise


def bytes_below(folder: Path) -> int:
    """The size of all files below a folder. A file with several names counts once.

    A file that goes meanwhile, or whose size cannot be read, does not count.
    """
    sizes: dict[tuple[int, int], int] = {}
    folders = [str(folder)]  # os.walk fails in folders that are nested a thousand deep
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def size_text(count: float) -> str:
    """Bytes in words: 0.2 MB, 1.5 GB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def keep_temporary_files_in_tmpdir() -> None:
    """Let Python's `tempfile` use the folder TMPDIR and no other.

    By itself it tries to write there first. On a full disk it then takes another folder, where nobody removes the files
    of an attempt, or it raises an error that says nothing of the disk.
    """
    import tempfile  # takes long to import

    tempfile.tempdir = os.environ.get("TMPDIR")
