"""Deletes jobs that have ended, with all that is stored of them. Called by the api, by retention and by the copier.

The row of a job goes in the transaction of the request, and with it its history, its attempts and all other rows that
refer to it. So from then on nobody finds the job. What its attempts used stays in `deleted_attempts`. What does not
refer to a row is removed later, because the job is in `deleted_jobs`: series and lines by `remove_rows`, files by each
host, copies by whoever tidies the store. Each of these steps may be repeated. A second look a day later removes what
somebody still wrote.

    JobNotEnded     the job has not ended
    JobInUse        something needs the job; the text says what
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import String, case, cast, delete, func, insert, literal_column, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import (
    Allocation,
    Attempt,
    DeletedAttempt,
    DeletedJob,
    Job,
    JobWait,
    LogLine,
    MetricBlock,
    MetricPoint,
    Rollup,
    Sample,
    Slot,
    WebhookDelivery,
)
from jobs.lifecycle.deliveries import OF_JOBS
from jobs.lifecycle.named_jobs import starting_from
from jobs.lifecycle.store import JobInUse, JobNotEnded
from jobs.model.states import TERMINAL

_SERIES: Sequence[tuple[Any, int]] = (  # and how many rows a batch removes: those of blocks are large
    (LogLine, 5000), (MetricPoint, 5000), (MetricBlock, 500), (Sample, 5000), (Rollup, 5000),
)  # fmt: skip
_BATCH_JOBS = 100
_AGAIN_AFTER = timedelta(days=1)
_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}


def delete_job(session: Session, job: Job) -> None:
    """Delete a job whose row is locked, and which belongs to no study. Raises `JobNotEnded`, `JobInUse`."""
    _require_ended(job)
    if job.study_id is not None:
        why = f"it belongs to study {job.study_id}, whose results need it; delete the whole study"
        raise JobInUse(f"job {job.id} cannot be deleted: {why}")
    delete_jobs(session, [job])


def delete_jobs(session: Session, jobs: Sequence[Job]) -> None:
    """Delete jobs whose rows are locked, of any study. Raises `JobNotEnded`, `JobInUse`.

    A submission that names a job locks its row too (`jobs.lifecycle.named_jobs`). So either it does not find the job
    any more, or this function sees the new job.
    """
    for job in jobs:
        _require_ended(job)
    job_ids = [job.id for job in jobs]
    if (need := _need_of(session, job_ids)) is not None:
        raise JobInUse("job {} cannot be deleted: {}".format(*need))
    session.execute(insert(DeletedJob), [{"id": job_id} for job_id in job_ids])
    _keep_usage(session, job_ids)
    of_jobs = (WebhookDelivery.subject_id == _any_of(job_ids), WebhookDelivery.event.in_(OF_JOBS))
    session.execute(delete(WebhookDelivery).where(*of_jobs), execution_options=_UNSYNCHRONIZED)
    session.execute(delete(Job).where(Job.id == _any_of(job_ids)), execution_options=_UNSYNCHRONIZED)


def _require_ended(job: Job) -> None:
    if job.status not in TERMINAL:
        raise JobNotEnded(job.id, job.status, "it can be deleted")


def _keep_usage(session: Session, job_ids: Collection[str]) -> None:
    """Keep what `jobs.people.usage_history` adds up. An imported run used nothing here."""
    kept = (DeletedAttempt.job_id, DeletedAttempt.number, DeletedAttempt.project, DeletedAttempt.owner,
            DeletedAttempt.shares, DeletedAttempt.created_at, DeletedAttempt.ended_at)  # fmt: skip
    attempts = select(
        Attempt.job_id, Attempt.number, func.coalesce(Attempt.project, Job.project), Job.owner, Attempt.shares,
        Attempt.created_at, Attempt.ended_at,
    ).join(Job, Job.id == Attempt.job_id)  # fmt: skip
    of_jobs = (Attempt.job_id == _any_of(job_ids), Job.run_id.is_(None))
    session.execute(insert(DeletedAttempt).from_select(kept, attempts.where(*of_jobs)))


def _need_of(session: Session, job_ids: Collection[str]) -> tuple[str, str] | None:
    """One of the jobs that something needs, and what: a clause without its full stop. None: nothing does."""
    some = _any_of(job_ids)
    waits = select(JobWait.on_job_id, JobWait.job_id).where(JobWait.on_job_id == some).limit(1)
    if (row := session.execute(waits).first()) is not None:
        return row[0], f"job {row[1]} waits for it; cancel that job first, or wait until it has ended"
    if (starting := starting_from(session, job_ids)) is not None:
        return starting[0], f"{starting[1]}; cancel that job first, or wait until it has ended"
    held = select(Attempt.job_id, Slot.host).join(Attempt, Attempt.id == Slot.attempt_id).where(Attempt.job_id == some)
    goes_on = select(Attempt.job_id, Attempt.host).where(Attempt.job_id == some, Attempt.ended_at.is_(None))
    for query in (held, goes_on):
        if (row := session.execute(query.limit(1)).first()) is not None:
            return row[0], f"host {row[1]} has not released its slots; try again when it has"
    of_pool = select(Allocation.job_id, Allocation.pool).where(Allocation.job_id == some, Allocation.over_at.is_(None))
    row = session.execute(of_pool.limit(1)).first()
    return None if row is None else (row[0], f"the pool {row[1]} has not given back its nodes; try again when it has")


def remove_rows(session: Session) -> bool:
    """Remove a batch of the series and lines of deleted jobs. Returns False if none is due."""
    due = select(DeletedJob.id).where(DeletedJob.rows_due_at <= func.now()).order_by(DeletedJob.rows_due_at)
    job_ids = list(session.scalars(due.limit(_BATCH_JOBS)))
    if not job_ids:
        return False
    for table, most in _SERIES:
        if _remove_from(session, table, job_ids, most=most) == most:
            return True
    again_at = DeletedJob.deleted_at + _AGAIN_AFTER
    later = case((func.now() < again_at, again_at))  # null: it was looked at a second time
    done = update(DeletedJob).where(DeletedJob.id.in_(job_ids)).values(rows_due_at=later)
    session.execute(done, execution_options=_UNSYNCHRONIZED)
    return True


def _remove_from(session: Session, table: Any, job_ids: Sequence[str], *, most: int) -> int:
    """Remove up to `most` rows of these jobs. Returns how many there were."""
    place: Any = literal_column("ctid")  # of a row: the tables have keys of different kinds
    some = select(place).select_from(table).where(table.job_id == _any_of(job_ids)).limit(most)
    removed: Any = session.execute(
        delete(table).where(place == func.any(func.array(some.scalar_subquery()))), execution_options=_UNSYNCHRONIZED
    )
    return int(removed.rowcount)


def deleted_among(session: Session, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs that were deleted. Their files may still exist."""
    return set(session.scalars(select(DeletedJob.id).where(DeletedJob.id == _any_of(job_ids))))


def deleted_within(session: Session, span: timedelta) -> Sequence[str]:
    """The jobs that were deleted in this time, the first one first."""
    recent = select(DeletedJob.id).where(DeletedJob.deleted_at > func.now() - span)
    return session.scalars(recent.order_by(DeletedJob.deleted_at, DeletedJob.id)).all()


def forget(session: Session, *, keep_days: float) -> bool:
    """Forget jobs that were deleted more than `keep_days` ago. Returns False if there are none."""
    old = (DeletedJob.deleted_at < func.now() - timedelta(days=keep_days), DeletedJob.rows_due_at.is_(None))
    some = select(DeletedJob.id).where(*old).order_by(DeletedJob.deleted_at).limit(_BATCH_JOBS)
    forgotten = session.scalars(delete(DeletedJob).where(DeletedJob.id.in_(some)).returning(DeletedJob.id)).all()
    return len(forgotten) == _BATCH_JOBS


def _any_of(job_ids: Collection[str]) -> Any:
    return func.any(cast(list(job_ids), ARRAY(String)))
