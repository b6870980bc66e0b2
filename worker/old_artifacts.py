"""The artifacts on this host of jobs whose rows say that they are not kept any longer. Called by the retention."""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from jobs.data.artifacts import jobs_without_artifacts
from jobs.db.engine import Sessions

_log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 100
_LOOK_EVERY_S = 3600.0  # artifacts are kept for long: an hour more does not matter, and all jobs' folders are asked for
_JOB_ID = re.compile(r"[0-9a-z]{1,32}")


class OldArtifacts:
    """Goes through the jobs' folders below this host's `runs_dir` once an hour, and removes what is to go.

    What is not a job of this database is left alone, and so is every symbolic link. Hosts that share the folder may
    do the same at once.
    """

    def __init__(self, sessions: Sessions, runs_dir: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions = sessions
        self._runs_dir = runs_dir
        self._clock = clock
        self._unseen: list[str] = []
        self._next_at: float | None = None  # when the folders are listed again; None: they never were

    def remove_some(self) -> bool:
        """Look at the next hundred jobs; False when the pass is over, and between two."""
        if not self._unseen:
            if self._next_at is not None and self._clock() < self._next_at:
                return False
            self._next_at = self._clock() + _LOOK_EVERY_S
            self._unseen = sorted(job_folders(self._runs_dir))
        some, self._unseen = self._unseen[:_JOBS_AT_ONCE], self._unseen[_JOBS_AT_ONCE:]
        with self._sessions() as session:
            old = jobs_without_artifacts(session, some)
        removed = [job_id for job_id in sorted(old) if _remove(self._runs_dir / job_id)]
        if removed:
            _log.info("artifacts of %d jobs that ended long ago are removed", len(removed))
        return bool(self._unseen)


def job_folders(runs_dir: Path) -> Iterable[str]:
    """The ids of the jobs that have a folder of their own there, which is no link."""
    try:
        with os.scandir(runs_dir) as entries:
            return [
                entry.name for entry in entries if _JOB_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def _remove(job_dir: Path) -> bool:
    """Remove the artifacts of a job, and its folder where nothing else is in it; whether there were any."""
    try:
        # Everything below is reached through this descriptor: what a link replaces meanwhile is not followed.
        folder = os.open(job_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # another host was faster, or it is a link
    try:
        there = "artifacts" in os.listdir(folder)
        if there:
            shutil.rmtree("artifacts", onerror=_tell, dir_fd=folder)
    finally:
        os.close(folder)
    with suppress(OSError):  # there is more in it
        job_dir.rmdir()
    return there


def _tell(_function: object, path: str, raised: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        _log.warning("%s cannot be removed: %s", path, raised[1])
