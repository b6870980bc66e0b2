"""Retention: a thread of every worker that removes what is older than the settings keep it.

One worker at a time works on rows (`jobs.lifecycle.retention.take_lock`); each host works on its own files. It works in
small batches and rests after each as long as the batch took, so nobody waits for a row or a disk for long. After an
interruption the next pass goes on from the rows and folders.
"""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.orm import Session

from jobs.data import code
from jobs.data.artifacts import mark_artifacts_removed
from jobs.db.engine import Sessions
from jobs.insight.analysis.keeping import Keeping
from jobs.lifecycle import deletion, retention
from jobs.lifecycle.store import settle_overlooked
from jobs.outward.webhooks.outbox import remove_old
from jobs.runtime.settings import Settings
from jobs.telemetry.host_samples import OldHostSamples
from jobs.telemetry.thinning import Thinning
from worker.datasets.folders import OldDatasets
from worker.deleted_jobs import DeletedJobs
from worker.job_folders import job_folders, remove_folders
from worker.old_artifacts import OldArtifacts
from worker.old_packages import OldPackages
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_SHORTEST_REST_S = 0.02
_TURN_S = 30.0  # then the next kind of work has its turn; the rest waits for the next pass
_JOBS_AT_ONCE = 100
_KEEP_TOKENS_DAYS = 30.0  # from their end
_KEEP_DELETED_DAYS = 365.0  # the ids of deleted jobs: a host that comes back later keeps their files
_KEEP_USAGE_DAYS = 90.0  # what the fair queue counts is much newer
_TEMPORARY = re.compile(r"attempt-[0-9]+|checkpoints|copying")  # names in a job's folder; its artifacts stay


class Retention(PeriodicThread):
    """Tidies up once a period, until it is stopped."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("retention", period_s=settings.retention_period_s)
        self._sessions = sessions
        self._settings = settings
        self._datasets = OldDatasets(sessions, settings)
        self._files = OldFiles(sessions, settings.runs_dir, host=settings.host, keep_days=settings.keep_files_days)
        most_bytes = int(settings.keep_requirements_gb * 1e9)
        self._packages = OldPackages(settings.packages_dir, most_bytes=most_bytes)
        self._artifacts = OldArtifacts(sessions, settings.runs_dir)
        self._deleted = DeletedJobs(sessions, settings.runs_dir)

    def once(self) -> None:
        """Tidy up once. A stop ends it after the present batch."""
        self.tidy()

    def tidy(self) -> None:
        """One pass over this host's files and over all rows."""
        config = self._settings
        keeping, thinning = Keeping(keep_days=config.keep_steps_days), Thinning(keep_days=config.keep_steps_days)
        keep_keys_days = config.keep_idempotency_days
        self._in_batches(self._deleted.remove_some)
        self._in_batches(self._files.remove_some)
        self._in_batches(self._datasets.remove_some)
        self._in_batches(self._packages.remove_some)
        self._tidy_rows(settle_overlooked)
        self._tidy_rows(lambda session: mark_artifacts_removed(session, keep_days=config.keep_artifacts_days))
        self._in_batches(self._artifacts.remove_some)
        self._tidy_rows(lambda session: remove_old(session, keep_days=config.keep_deliveries_days))
        self._tidy_rows(self._forget_hosts)
        self._tidy_rows(lambda session: retention.remove_audit(session, keep_days=config.keep_audit_days))
        self._tidy_rows(lambda session: retention.remove_idempotency_keys(session, keep_days=keep_keys_days))
        self._tidy_rows(lambda session: retention.remove_usage_hours(session, keep_days=_KEEP_USAGE_DAYS))
        self._tidy_rows(lambda session: retention.remove_tokens(session, keep_days=_KEEP_TOKENS_DAYS))
        self._tidy_rows(lambda session: code.remove_unused(session, keep_days=config.keep_code_days))
        self._tidy_rows(OldHostSamples(config.keep_steps_days).remove_some)
        self._tidy_rows(deletion.remove_rows)
        self._tidy_rows(lambda session: deletion.forget(session, keep_days=_KEEP_DELETED_DAYS))
        self._tidy_rows(lambda session: retention.remove_logs(session, keep_days=config.keep_logs_days))
        # A job is thinned only when it has been analysed: the analysis needs every step.
        self._tidy_rows(lambda session: keeping.keep_one(session) or thinning.batch(session))

    def _in_batches(self, batch: Callable[[], bool]) -> None:
        """Run `batch` until it returns that nothing is left, or its turn is over."""
        give_up_at = time.monotonic() + _TURN_S
        while True:
            started = time.monotonic()
            has_more = batch()
            ended = time.monotonic()
            if not has_more or ended > give_up_at or self.stopped.wait(max(_SHORTEST_REST_S, ended - started)):
                return

    def _tidy_rows(self, work: Callable[[Session], bool]) -> None:
        """Run `work` in batches, each a transaction of its own. It ends at once if another worker tidies rows."""

        def batch() -> bool:
            with self._sessions.begin() as session:
                return retention.take_lock(session) and work(session)

        self._in_batches(batch)

    def _forget_hosts(self, session: Session) -> bool:
        for name in retention.forget_hosts(session, after_days=self._settings.forget_hosts_days):
            _log.info("host %s was lost for too long and is removed from the list", name, extra={"host": name})
        return False


class OldFiles:
    """The folders of attempts and the checkpoints of jobs that ended long ago, below this host's `runs_dir`.

    It does not touch symbolic links, or folders that do not belong to a job of this database. Hosts that share the
    folder may do the same at once.
    """

    def __init__(self, sessions: Sessions, runs_dir: Path, *, host: str, keep_days: float) -> None:
        self._sessions = sessions
        self._runs_dir = runs_dir
        self._host = host
        self._keep_days = keep_days
        self._tidy: set[str] = set()  # jobs of which only artifacts are left
        self._remaining: list[str] | None = None  # None: this pass has not listed the folder yet

    def remove_some(self) -> bool:
        """Look at the next hundred jobs; False when the pass is over."""
        if self._remaining is None:
            present = set(job_folders(self._runs_dir))
            self._tidy &= present
            self._remaining = sorted(present - self._tidy)
        job_ids, self._remaining = self._remaining[:_JOBS_AT_ONCE], self._remaining[_JOBS_AT_ONCE:]
        with self._sessions() as session:
            ended_ids = retention.ended_long_ago(session, job_ids, keep_days=self._keep_days)
        for job_id in sorted(ended_ids):
            remove_temporary(self._runs_dir / job_id)
        if ended_ids:
            with self._sessions.begin() as session:
                retention.checkpoints_removed(session, ended_ids, host=self._host)
            self._tidy |= ended_ids
            _log.info("files of %d jobs that ended long ago are removed", len(ended_ids))
        if not self._remaining:
            self._remaining = None
        return self._remaining is not None


def remove_temporary(job_dir: Path) -> None:
    """Remove all of a job's folder except its artifacts; the folder too if it has none."""
    remove_folders(job_dir, _TEMPORARY)
