"""Removes installed packages of scripts when they take too much: first those that were used longest ago.

Used by the retention of a worker. `trainer.script.packages` installs them, and locks a set while a script uses it.
"""

import fcntl
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.files import bytes_below

_log = logging.getLogger(__name__)

_COMPLETE = ".complete"  # as in `trainer.script.packages`


@dataclass(frozen=True)
class _Set:
    place: Path
    used_at: float  # 0: it was never completed
    size_bytes: int


class OldPackages:
    """The installed sets of this host, of which the newest may take `most_bytes` together."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._sizes: dict[tuple[Path, float], int] = {}  # measured once: an installed set does not change

    def remove_some(self) -> bool:
        """Remove one set that is not needed. Returns whether there may be more."""
        sets = sorted(self._sets(), key=lambda one: one.used_at)
        too_much = sum(one.size_bytes for one in sets) - self._most_bytes
        candidates = [one for one in sets if not one.used_at or too_much > 0]
        return any(self._remove(one.place) for one in candidates)

    def _sets(self) -> list[_Set]:
        try:
            places = [place for place in self._folder.iterdir() if place.is_dir() and not place.is_symlink()]
        except FileNotFoundError:
            return []
        return [self._measured(place) for place in places]

    def _measured(self, place: Path) -> _Set:
        try:
            used_at = (place / _COMPLETE).stat().st_mtime
        except OSError:
            return _Set(place, 0.0, 0)
        made_at = place.stat().st_ctime
        if (place, made_at) not in self._sizes:
            self._sizes[place, made_at] = bytes_below(place)
        return _Set(place, used_at, self._sizes[place, made_at])

    def _remove(self, place: Path) -> bool:
        """Remove a set, unless a script uses it or a rank installs it."""
        lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            (place / _COMPLETE).unlink(missing_ok=True)  # so that half a set is none
            shutil.rmtree(place, ignore_errors=True)
            _log.info("removed the installed packages in %s", place.name)
            return True
        finally:
            os.close(lock)
