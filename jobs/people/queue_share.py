"""The share of the queue that one user may have. Called by the api before it stores jobs, in its transaction.

TooManyQueuedJobs   the user has as many jobs in the queue as allowed
"""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.model.states import Status

_FREE_SHARE = 0.8  # of the limit: below it, submissions at the same time need not take turns


class TooManyQueuedJobs(ValueError):
    """These jobs would bring the user above the limit."""

    def __init__(self, owner: str, *, queued: int, new_jobs: int, most: int) -> None:
        more = "" if new_jobs == 1 else f"; this would add {new_jobs:,}"
        super().__init__(
            f"{owner} has {queued:,} of {most:,} jobs in the queue{more}: wait until some have started, or cancel some"
        )


def require_queue_share(session: Session, owner: str, *, jobs: int, most: int) -> None:
    """Refuse new jobs of a user if the queue would then have more than `most` of theirs. Raises `TooManyQueuedJobs`."""
    if _queued(session, owner) + jobs <= most * _FREE_SHARE:
        return
    # Requests of one user take turns, so that the count is right until the commit.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"queue\n{owner}", 0))))
    queued = _queued(session, owner)
    if queued + jobs > most:
        raise TooManyQueuedJobs(owner, queued=queued, new_jobs=jobs, most=most)


def _queued(session: Session, owner: str) -> int:
    return session.scalar(select(func.count()).where(Job.owner == owner, Job.status == Status.QUEUED)) or 0
