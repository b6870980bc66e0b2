"""The mirror: a thread of every worker that copies jobs to an MLflow server, if the settings name one.

One worker copies at a time. What was sent is noted after it was sent. A worker that is stopped in between sends it once
more, and the server keeps a repeated point once. A run is looked up before it is created. No job and no other part of
the worker waits for the server.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select

from jobs.db.engine import Sessions
from jobs.lifecycle.store import JobNotFound
from jobs.model.states import Status
from jobs.outward.mirroring import store
from jobs.outward.mirroring.description import JOB_TAG, identity, outcome, params
from jobs.outward.mirroring.store import Position, Work
from jobs.runtime.settings import Settings
from jobs.telemetry.axes import start_of
from worker.outward.mlflow_server import Away, MlflowServer, NewRun, Refused
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

_MIRROR_LOCK = 0x6D6972726F72  # "mirror": an advisory lock's number
_LONGEST_PAUSE_S = 300.0  # while the server is away
_STATUS = {
    Status.QUEUED: "SCHEDULED",  # again, after an attempt
    Status.LAUNCHING: "SCHEDULED",
    Status.RUNNING: "RUNNING",
    Status.SUCCEEDED: "FINISHED",
    Status.FAILED: "FAILED",
    Status.CANCELLED: "KILLED",
}


class Mirror(PeriodicThread):
    """Copies what is new once a period, until it is stopped."""

    def __init__(self, sessions: Sessions, settings: Settings, server: MlflowServer) -> None:
        super().__init__("mirror", period_s=settings.mlflow_period_s)
        self._sessions = sessions
        self._settings = settings
        self._server = server
        self._away_pause_s = 0.0  # while the server is away

    def run(self) -> None:
        """Copy until it is stopped."""
        super().run()
        self._server.close()

    def pause_s(self) -> float:
        """A period. It grows while the server is away."""
        return max(self._period_s, self._away_pause_s)

    def once(self) -> None:
        """Copy what is new."""
        self.copy()
        self._away_pause_s = 0.0

    def failed(self, error: Exception) -> None:
        """Log the error. If the server is away, double the time until the next try."""
        if isinstance(error, Away):
            self._away_pause_s = min(2 * self.pause_s(), _LONGEST_PAUSE_S)
            _log.warning("MLflow does not answer, the next try is in %.0f s: %s", self.pause_s(), error)
        else:
            super().failed(error)

    def copy(self) -> None:
        """One pass over all jobs with something new, unless another worker makes one. Raises `Away`."""
        with self._exclusive() as is_alone:
            if not is_alone:
                return
            with self._sessions.begin() as session:
                store.begin(session)
                job_ids = store.unfinished(session)
            for job_id in job_ids:
                if self.stopped.is_set():
                    return
                self._copy_job(job_id)

    @contextmanager
    def _exclusive(self) -> Iterator[bool]:
        """Take the lock of the mirror; yields whether it was free.

        The lock belongs to the connection, not to a transaction, which would stay open during requests to the server.
        It ends with the connection, so a worker that dies leaves no lock.
        """
        with self._sessions() as session:
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            is_alone = bool(session.scalar(select(func.pg_try_advisory_lock(_MIRROR_LOCK))))
            try:
                yield is_alone
            finally:
                if is_alone:
                    session.execute(select(func.pg_advisory_unlock(_MIRROR_LOCK)))

    def _copy_job(self, job_id: str) -> None:
        try:
            with self._sessions() as session:
                work = store.work_on(session, job_id, sample_period_s=self._settings.sample_period_s)
        except JobNotFound:  # a person deleted it since the pass began
            return
        if work.is_needless:
            return
        try:
            if work.is_void:
                _log.info(
                    "job %s restarted from before the newest point in MLflow: it gets a new run",
                    job_id,
                    extra={"job": job_id},
                )
                self._save(work, work.after, run_id=None)
            else:
                self._send(work)
        except Refused as error:
            _log.warning("MLflow refuses job %s: %s", job_id, error, extra={"job": job_id})
            with self._sessions.begin() as session:
                if store.refused(session, job_id, str(error)):
                    _log.error("job %s is not copied to MLflow any more", job_id, extra={"job": job_id})

    def _send(self, work: Work) -> None:
        """Send the new data of a job. The worker may die after any line here; another one then repeats all of them."""
        job, server = work.job, self._server
        if work.before.void_run is not None:
            server.delete_run(work.before.void_run)
        run_id = work.run_id or server.find_run(tag=JOB_TAG, value=job.id)
        if run_id is None:
            start_ms = round(start_of(job).timestamp() * 1000)
            run_id = server.create_run(NewRun(job.name, start_ms, identity(job)))
        if work.after.is_described and not work.before.is_described:
            server.set_params(run_id, params(job))
        server.log(run_id, work.points)
        if work.after.status is not work.before.status:
            end_ms = None if job.ended_at is None else round(job.ended_at.timestamp() * 1000)
            if work.is_last:
                server.set_tags(run_id, outcome(job))
            server.set_status(run_id, _STATUS[job.status], end_ms=end_ms)
        self._save(work, work.after, run_id=run_id, is_done=work.is_last)

    def _save(self, work: Work, after: Position, *, run_id: str | None, is_done: bool = False) -> None:
        with self._sessions.begin() as session:
            if not store.save(session, work, after, run_id=run_id, done=is_done):
                _log.warning("another worker copies job %s to MLflow too", work.job.id, extra={"job": work.job.id})


def mirror_of(sessions: Sessions, settings: Settings) -> Mirror | None:
    """The mirror that the settings ask for."""
    if settings.mlflow_url is None:
        return None
    server = MlflowServer(settings.mlflow_url, token=settings.mlflow_token, experiment=settings.mlflow_experiment)
    return Mirror(sessions, settings, server)
