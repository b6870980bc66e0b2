"""Holds the files of checkpoints under second names while they wait to be copied. Called by `attempt_copies`.

A job removes its old checkpoints whenever it saves a new one. With a slow store, or a job that saves often, that would
be before an old one is copied, and no copy would ever be whole.

    Changed     a file changed or went meanwhile; the next pass tries again
"""

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from jobs.runtime.checkpoint_folders import LocalCheckpoint
from jobs.runtime.files import make_private
from jobs.runtime.open_folders import open_folder, walk

_log = logging.getLogger(__name__)
# The file system has no second names, or does not let this user give them to files of scripts.
_NO_LINKS = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


class Changed(RuntimeError):
    """A file changed or went meanwhile."""


class Holding:
    """Checkpoints that stay when the job removes them, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_begun = False

    def hold(self, found: LocalCheckpoint, is_whole: Callable[[], bool]) -> LocalCheckpoint:
        """The same checkpoint at a path where it stays. At its own, if its files cannot be held.

        `is_whole` is asked at the end: False if the job may have begun to remove it. Raises `Changed`, `OSError`.
        """
        if not self._has_begun:  # an earlier process may have left some
            self.release_all()
            self._has_begun = True
        place = self._folder / f"step-{found.step}"
        try:
            held = replace(found, path=_linked(found.path, place))
        except FileNotFoundError:
            self.release(found)
            raise Changed("the checkpoint was removed while its files were held") from None
        if not is_whole():
            self.release(found)
            raise Changed("the checkpoint may have been removed in part while its files were held")
        return held

    def has(self, held: LocalCheckpoint) -> bool:
        """Whether the files of a checkpoint are held, and not at their own place."""
        return held.path.is_relative_to(self._folder)

    def release(self, held: LocalCheckpoint) -> None:
        """Let a checkpoint go."""
        shutil.rmtree(self._folder / f"step-{held.step}", ignore_errors=True)

    def release_all(self) -> None:
        """Let all go that are there."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # another attempt of the job holds some, or the folder is not there
            self._folder.parent.rmdir()


def _linked(path: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    make_private(place)
    into = place / path.name
    try:
        if path.is_dir():
            _link_below(path, into)
        else:
            os.link(path, into, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _log.warning("a checkpoint is copied from its own place: its files cannot be held: %s", error.strerror)
        shutil.rmtree(place, ignore_errors=True)
        return path
    return into


def _link_below(path: Path, into: Path) -> None:
    """Link all files below a folder that a script made: no link in it is followed, whatever the script does."""
    top = open_folder(path)
    try:
        for below in walk(top):
            target = into / below.path
            make_private(target)
            for name in below.others:
                os.link(name, target / name, src_dir_fd=below.descriptor, follow_symlinks=False)
        if not os.path.samestat(os.fstat(top), path.lstat()):  # saved again under the same step
            raise FileNotFoundError(path)
    finally:
        os.close(top)
