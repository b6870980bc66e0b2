"""Removes the artifacts on this host of jobs whose rows say that they are no longer kept. Called by the retention."""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

from jobs.data.artifacts import jobs_without_artifacts
from jobs.db.engine import Sessions
from worker.job_folders import job_folders, remove_folders

_log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 100
_LOOK_EVERY_S = 3600.0  # artifacts are kept for long, and a pass lists the folders of all jobs
_ARTIFACTS = re.compile("artifacts")


class OldArtifacts:
    """Goes through the jobs' folders below this host's `runs_dir` once an hour, and removes such artifacts.

    It does not touch symbolic links, or folders that do not belong to a job of this database. Hosts that share the
    folder may do the same at once.
    """

    def __init__(self, sessions: Sessions, runs_dir: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions = sessions
        self._runs_dir = runs_dir
        self._clock = clock
        self._remaining: list[str] = []
        self._next_at: float | None = None  # when the folders are listed again; None: they never were

    def remove_some(self) -> bool:
        """Look at the next hundred jobs; False when the pass is over, and between two passes."""
        if not self._remaining:
            if self._next_at is not None and self._clock() < self._next_at:
                return False
            self._next_at = self._clock() + _LOOK_EVERY_S
            self._remaining = sorted(job_folders(self._runs_dir))
        job_ids, self._remaining = self._remaining[:_JOBS_AT_ONCE], self._remaining[_JOBS_AT_ONCE:]
        with self._sessions() as session:
            removed_ids = jobs_without_artifacts(session, job_ids)
        removed = [job_id for job_id in sorted(removed_ids) if remove_folders(self._runs_dir / job_id, _ARTIFACTS)]
        if removed:
            _log.info("artifacts of %d jobs that ended long ago are removed", len(removed))
        return bool(self._remaining)
