"""Holds the files of a checkpoint under second names while they are copied. Called by `worker.copies.copying`.

A job removes its old checkpoints whenever it saves a new one. With a slow store that would be before an old one is
copied, and no copy would ever be whole.
"""

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.runtime.files import make_private

_log = logging.getLogger(__name__)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The file system has no second names, or does not let this user give them to files of scripts.
_NO_LINKS = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


@contextmanager
def held(path: Path, folder: Path) -> Iterator[Path]:
    """The path of a file or folder with the content of `path`, which stays when that is removed.

    It is below `folder`, which goes at the end. If the files cannot be held, it is `path` itself. Raises
    `FileNotFoundError` if that goes meanwhile.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield _linked(path, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _linked(path: Path, folder: Path) -> Path:
    make_private(folder)
    into = folder / path.name
    try:
        if path.is_dir():
            _link_below(path, into)
        else:
            os.link(path, into, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _log.warning("a checkpoint is copied from its own place: its files cannot be held: %s", error.strerror)
        shutil.rmtree(into, ignore_errors=True)
        return path
    return into


def _link_below(path: Path, into: Path) -> None:
    """Link all files below a folder that a script made: no link in it is followed, whatever the script does."""
    top = os.open(path, _FOLDER)
    try:
        for below, _, names, opened in os.fwalk(".", dir_fd=top):
            target = into / below
            make_private(target)
            for name in names:
                os.link(name, target / name, src_dir_fd=opened, follow_symlinks=False)
    finally:
        os.close(top)
