"""Stores analyses of jobs whose series are about to be thinned. Called by `worker.retention` before it thins."""

import logging
from datetime import timedelta

from sqlalchemy import Select, exists, func, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from jobs.db.tables import Job, JobAnalysis
from jobs.insight.analysis.analyse import VERSION, analysis_of

_log = logging.getLogger(__name__)


class Keeping:
    """Analyses one job after another. A job whose analysis fails is skipped, so that its series can be thinned."""

    def __init__(self, *, keep_days: float) -> None:
        self._keep = timedelta(days=keep_days)
        self._failed: set[str] = set()

    def keep_one(self, session: Session) -> bool:
        """Store the analysis of the next job; False when every job has one."""
        job = session.scalar(self._next())
        if job is None:
            return False
        try:
            with session.begin_nested():
                analysis_of(session, job)
        except OperationalError:  # the database is away or busy: try again later
            raise
        except (DBAPIError, ArithmeticError, LookupError, TypeError, ValueError):
            _log.exception("the series are thinned without an analysis", extra={"job": job.id})
            self._failed.add(job.id)
        return True

    def _next(self) -> Select[Job]:
        has_analysis = exists().where(JobAnalysis.job_id == Job.id, JobAnalysis.version == VERSION)
        due = (Job.ended_at < func.now() - self._keep, Job.series_thinned_at.is_(None), ~has_analysis)
        return select(Job).where(*due, Job.id.not_in(self._failed)).order_by(Job.ended_at).limit(1)
