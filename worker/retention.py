"""Retention: a thread of every worker that removes what is older than the settings keep it.

Rows are one worker's at a time (`jobs.lifecycle.retention.alone`); files are each host's own. It works in small
batches, with a rest after each that is as long as the batch: nobody waits for a row or a disk for long. Whatever stops
it, the next pass goes on from what the rows and folders say.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlalchemy.orm import Session

from jobs.data.artifacts import give_up
from jobs.db.engine import Sessions
from jobs.insight.analysis.keeping import Keeping
from jobs.lifecycle import retention
from jobs.outward.webhooks.outbox import remove_old
from jobs.runtime.settings import Settings
from jobs.telemetry.host_samples import OldHostSamples
from jobs.telemetry.thinning import Thinning
from worker.datasets.folders import OldDatasets
from worker.old_artifacts import OldArtifacts, job_folders
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_SHORTEST_REST_S = 0.02
_TURN_S = 30.0  # then the next kind of work has its turn; the rest is for the next pass
_JOBS_AT_ONCE = 100
_KEEP_SESSIONS_DAYS = 30.0
_TEMPORARY = re.compile(r"attempt-[0-9]+|checkpoints")  # of a job's folder; its artifacts stay


class Retention(PeriodicThread):
    """Tidies up once a period, until it is stopped."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("retention", period_s=settings.retention_period_s)
        self._sessions = sessions
        self._settings = settings
        self._datasets = OldDatasets(sessions, settings.datasets, keep_uploads_days=settings.keep_uploads_days)
        self._files = OldFiles(sessions, settings.runs_dir, keep_days=settings.keep_files_days)
        self._artifacts = OldArtifacts(sessions, settings.runs_dir)

    def once(self) -> None:
        """Tidy up once. A stop ends it after the batch at hand."""
        self.tidy()

    def tidy(self) -> None:
        """One pass over this host's files and everybody's rows."""
        config = self._settings
        keeping, thinning = Keeping(keep_days=config.keep_steps_days), Thinning(keep_days=config.keep_steps_days)
        self._in_batches(self._files.remove_some)
        self._in_batches(self._datasets.remove_some)
        self._in_batches(self._alone(lambda session: give_up(session, keep_days=config.keep_artifacts_days)))
        self._in_batches(self._artifacts.remove_some)
        self._in_batches(self._alone(lambda session: remove_old(session, keep_days=config.keep_deliveries_days)))
        self._in_batches(self._alone(self._forget_hosts))
        self._in_batches(self._alone(lambda session: retention.remove_audit(session, keep_days=config.keep_audit_days)))
        keep_keys_days = config.keep_idempotency_days
        self._in_batches(
            self._alone(lambda session: retention.remove_idempotency_keys(session, keep_days=keep_keys_days))
        )
        self._in_batches(self._alone(lambda session: retention.remove_sessions(session, keep_days=_KEEP_SESSIONS_DAYS)))
        self._in_batches(self._alone(OldHostSamples(config.keep_steps_days).remove_some))
        self._in_batches(self._alone(lambda session: retention.remove_logs(session, keep_days=config.keep_logs_days)))
        # A job is thinned only when it has been analysed: what is told of it rests on every step.
        self._in_batches(self._alone(lambda session: keeping.keep_one(session) or thinning.batch(session)))

    def _in_batches(self, batch: Callable[[], bool]) -> None:
        """Run `batch` until it says that nothing is left, for a while."""
        give_up_at = time.monotonic() + _TURN_S
        while True:
            started = time.monotonic()
            more = batch()
            ended = time.monotonic()
            if not more or ended > give_up_at or self.stopped.wait(max(_SHORTEST_REST_S, ended - started)):
                return

    def _alone(self, work: Callable[[Session], bool]) -> Callable[[], bool]:
        """A batch of work on rows: a transaction; nothing is left where another worker is at it."""

        def batch() -> bool:
            with self._sessions.begin() as session:
                return retention.alone(session) and work(session)

        return batch

    def _forget_hosts(self, session: Session) -> bool:
        for name in retention.forget_hosts(session, after_days=self._settings.forget_hosts_days):
            _log.info("host %s was lost for so long that it is forgotten", name, extra={"host": name})
        return False


class OldFiles:
    """The folders of attempts and the checkpoints of jobs that ended long ago, below this host's `runs_dir`.

    What is not a job of this database is left alone, and so is every symbolic link. Hosts that share the folder may
    do the same at once.
    """

    def __init__(self, sessions: Sessions, runs_dir: Path, *, keep_days: float) -> None:
        self._sessions = sessions
        self._runs_dir = runs_dir
        self._keep_days = keep_days
        self._tidy: set[str] = set()  # jobs of which only artifacts are left
        self._unseen: list[str] | None = None  # None: the folder is still to be listed in this pass

    def remove_some(self) -> bool:
        """Look at the next hundred jobs; False when the pass is over."""
        if self._unseen is None:
            present = set(job_folders(self._runs_dir))
            self._tidy &= present
            self._unseen = sorted(present - self._tidy)
        some, self._unseen = self._unseen[:_JOBS_AT_ONCE], self._unseen[_JOBS_AT_ONCE:]
        with self._sessions() as session:
            over = retention.long_over(session, some, keep_days=self._keep_days)
        for job_id in sorted(over):
            remove_temporary(self._runs_dir / job_id)
            self._tidy.add(job_id)
        if over:
            _log.info("files of %d jobs that ended long ago are removed", len(over))
        if not self._unseen:
            self._unseen = None
        return self._unseen is not None


def remove_temporary(job_dir: Path) -> None:
    """Remove all of a job's folder but its artifacts; the folder itself where it has none."""
    try:
        # Everything below is reached through this descriptor: what a link replaces meanwhile is not followed.
        folder = os.open(job_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # another host was faster, or it is a link
    try:
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                shutil.rmtree(name, onerror=_tell, dir_fd=folder)
        with suppress(OSError):  # there are some
            os.rmdir("artifacts", dir_fd=folder)
    finally:
        os.close(folder)
    with suppress(OSError):
        job_dir.rmdir()


def _tell(_function: object, path: str, raised: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        _log.warning("%s cannot be removed: %s", path, raised[1])
