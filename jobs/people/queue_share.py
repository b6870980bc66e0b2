"""The share of the queue that one user may have. Called by the api before it stores jobs, in its transaction.

TooManyQueuedJobs   the user has as many jobs in the queue as allowed
"""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.model.states import Status

# Jobs that one user may be submitting at the same time: a study has up to 1,000, and each api works on one study of a
# user at once.
_MOST_UNDER_WAY = 4_000


class TooManyQueuedJobs(ValueError):
    """These jobs would bring the user above the limit."""

    def __init__(self, owner: str, *, queued: int, new_jobs: int, most: int) -> None:
        more = "" if new_jobs == 1 else f"; this would add {new_jobs:,}"
        super().__init__(
            f"{owner} has {queued:,} of {most:,} jobs in the queue{more}: wait until some have started, or cancel some"
        )


def require_queue_share(session: Session, owner: str, *, jobs: int, most: int) -> None:
    """Refuse new jobs of a user if the queue would then have more than `most` of theirs. Raises `TooManyQueuedJobs`."""
    if _queued(session, owner) + jobs <= most - _MOST_UNDER_WAY:
        return
    # Near the limit, requests of one user take turns, so that the count is right until the commit.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"queue\n{owner}", 0))))
    queued = _queued(session, owner)
    if queued + jobs > most:
        raise TooManyQueuedJobs(owner, queued=queued, new_jobs=jobs, most=most)


def _queued(session: Session, owner: str) -> int:
    return session.scalar(select(func.count()).where(Job.owner == owner, Job.status == Status.QUEUED)) or 0
