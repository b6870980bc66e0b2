"""A job whose slots nobody uses: the warning on its row, and the pause or the end that follows.

`jobs.telemetry.idle_watch` decides. Each function locks the job's row and checks that the decision still holds, so
repeating one changes nothing. They work in the caller's transaction; the caller commits.
"""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.lifecycle.deliveries import add_idle_deliveries
from jobs.lifecycle.store import add_event, touch
from jobs.model.states import ACTIVE, EventKind
from jobs.views.idle import IdleNotice


def warn(session: Session, job_id: str, notice: IdleNotice) -> bool:
    """Put the warning on the job's row, in its history, and out to webhooks. Returns whether it did."""
    job = going_on(session, job_id, notice.attempt)
    if job is None or job.idle is not None:
        return False
    document = _store(session, job_id, notice)
    add_event(session, job_id, EventKind.IDLE_WARNED, attempt=notice.attempt, data=document)
    add_idle_deliveries(session, [job_id])
    return True


def withdraw(session: Session, job_id: str, attempt: int, *, why: str) -> bool:
    """Take the warning back, or whatever was said of an earlier attempt. Returns whether there was one."""
    job = going_on(session, job_id, attempt)
    if job is None or job.idle is None or (job.idle["acted_at"] is not None and job.idle["attempt"] == attempt):
        return False
    touch(session, job_id, idle=None)
    add_event(session, job_id, EventKind.IDLE_WITHDRAWN, attempt=attempt, data={"why": why})
    return True


def act(session: Session, job_id: str, warning: IdleNotice, *, why: str) -> bool:
    """Pause or end the job, as the warning said. Returns whether it did.

    The supervisor reads it: `jobs.lifecycle.leases.stop_requests`.
    """
    job = going_on(session, job_id, warning.attempt)
    if job is None or job.idle is None or IdleNotice.model_validate(job.idle) != warning:
        return False
    now = session.execute(select(func.now())).scalar_one()
    document = _store(session, job_id, warning.model_copy(update={"acted_at": now, "why": why}))
    add_event(session, job_id, EventKind.IDLE_ACTED, attempt=warning.attempt, data=document)
    if warning.action == "pause":
        touch(session, job_id, paused_at=now)
        add_event(session, job_id, EventKind.PAUSE_REQUESTED, data={"why": why})
        add_idle_deliveries(session, [job_id])  # an end has its own
    return True


def why_paused(notice: dict[str, Any] | None, *, attempt: int) -> str | None:
    """Why a job with this notice on its row was paused in this attempt; None: not because of its slots.

    A process of an older version leaves the notice on the row when it ends the attempt.
    """
    return _why_acted(notice, "pause", attempt)


def why_stopped(notice: dict[str, Any] | None, *, attempt: int) -> str | None:
    """Why this attempt of a job with this notice on its row is to end; None: not because of its slots."""
    return _why_acted(notice, "stop", attempt)


def _why_acted(notice: dict[str, Any] | None, action: str, attempt: int) -> str | None:
    if notice is None or notice["action"] != action or notice["acted_at"] is None or notice["attempt"] != attempt:
        return None
    return str(notice["why"])


def going_on(session: Session, job_id: str, attempt: int) -> Job | None:
    """The job, locked. None if the attempt is over, or a person has asked for its end already."""
    query = select(Job).where(
        Job.id == job_id, Job.attempt == attempt, Job.status.in_(ACTIVE),
        Job.cancel_requested_at.is_(None), Job.paused_at.is_(None),
    )  # fmt: skip
    return session.scalar(query.with_for_update(), execution_options={"populate_existing": True})


def _store(session: Session, job_id: str, notice: IdleNotice) -> dict[str, Any]:
    document = notice.model_dump(mode="json")
    touch(session, job_id, idle=document)
    return document
