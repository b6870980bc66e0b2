"""The end of a trial that its search requests: the mark on its row. `jobs.insight.studies.searching` decides.

The supervisor reads it: `jobs.lifecycle.leases.stop_requests`. The caller commits.
"""

from sqlalchemy.orm import Session

from jobs.lifecycle.idle import going_on
from jobs.lifecycle.store import add_event, touch
from jobs.model.states import EventKind


def prune(session: Session, job_id: str, attempt: int, *, epoch: int, why: str) -> bool:
    """Ask for the end of a job because of its value at an epoch. Returns whether it did.

    Nothing happens if that attempt is over, or somebody has asked for its end already.
    """
    job = going_on(session, job_id, attempt)
    if job is None or job.pruned_at_epoch is not None:
        return False
    touch(session, job_id, pruned_at_epoch=epoch)
    add_event(session, job_id, EventKind.PRUNE_REQUESTED, attempt=attempt, data={"epoch": epoch, "why": why})
    return True
