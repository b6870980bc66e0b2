"""Removes the files on this host of jobs that people deleted. Called by the retention."""

import logging
import re
from pathlib import Path

from jobs.db.engine import Sessions
from jobs.lifecycle.deletion import deleted_among
from worker.job_folders import job_folders, remove_folders

_log = logging.getLogger(__name__)

_JOBS_AT_ONCE = 500
_ALL = re.compile(r"attempt-[0-9]+|checkpoints|copying|artifacts")  # names in a job's folder


class DeletedJobs:
    """Goes through the jobs' folders below this host's `runs_dir` in each pass.

    It does not touch symbolic links, or folders that do not belong to a deleted job of this database. Hosts that share
    the folder may do the same at once.
    """

    def __init__(self, sessions: Sessions, runs_dir: Path) -> None:
        self._sessions = sessions
        self._runs_dir = runs_dir
        self._remaining: list[str] | None = None  # None: this pass has not listed the folder yet

    def remove_some(self) -> bool:
        """Look at the next few hundred jobs; False when the pass is over."""
        if self._remaining is None:
            self._remaining = sorted(job_folders(self._runs_dir))
        job_ids, self._remaining = self._remaining[:_JOBS_AT_ONCE], self._remaining[_JOBS_AT_ONCE:]
        with self._sessions() as session:
            deleted_ids = deleted_among(session, job_ids)
        removed = [job_id for job_id in sorted(deleted_ids) if remove_folders(self._runs_dir / job_id, _ALL)]
        if removed:
            _log.info("files of %d deleted jobs are removed", len(removed))
        if not self._remaining:
            self._remaining = None
        return self._remaining is not None
