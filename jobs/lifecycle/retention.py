"""What goes once a job has been over for long, and which hosts are forgotten.

`jobs.telemetry.thinning` thins the series.

Called by `worker.retention`, a batch a transaction: a few thousand rows, of ended jobs alone, so that nobody who
writes ever waits for it. What is done is noted on the job's row in the same transaction, so nothing is done twice.
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import String, cast, delete, exists, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, AuditEntry, Host, IdempotencyKey, Job, LogLine, Slot, Token

_ONE_AT_WORK = 0x726574656E74  # "retent": an advisory lock's number
_BATCH_ROWS = 5000
_BATCH_JOBS = 100


def alone(session: Session) -> bool:
    """Whether no other worker is at this; if so, none will be until the commit."""
    # A count of rows that is out of date after much was removed must not make it read a whole table.
    session.execute(text("SET LOCAL enable_seqscan = off"))
    session.execute(text("SET LOCAL lock_timeout = '2s'"))
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(_ONE_AT_WORK))))


def remove_logs(session: Session, *, keep_days: float) -> bool:
    """Remove lines of jobs that ended longer ago than that; False when no such job has any left."""
    due = (Job.ended_at < func.now() - timedelta(days=keep_days), Job.logs_removed_at.is_(None))
    jobs = cast(session.scalars(select(Job.id).where(*due).order_by(Job.ended_at).limit(_BATCH_JOBS)).all(), _IDS)
    # In their order: by the first line that is left `api.polling.versions` sees that some are gone.
    in_order = select(LogLine.id).where(LogLine.job_id == func.any(jobs)).order_by(LogLine.job_id, LogLine.id)
    some = in_order.limit(_BATCH_ROWS)
    removed = session.scalars(delete(LogLine).where(LogLine.id.in_(some)).returning(LogLine.id)).all()
    if len(removed) == _BATCH_ROWS:
        return True
    marked = session.scalars(
        update(Job)
        .where(Job.id == func.any(jobs), Job.logs_removed_at.is_(None))
        .values(logs_removed_at=func.now(), revision=Job.revision + 1)
        .returning(Job.id),
        execution_options={"synchronize_session": False},
    )
    return bool(marked.all())


def remove_audit(session: Session, *, keep_days: float) -> bool:
    """Remove what people did longer ago than that; False when nothing of it is left."""
    due = select(AuditEntry.id).where(AuditEntry.at < func.now() - timedelta(days=keep_days))
    some = due.order_by(AuditEntry.at).limit(_BATCH_ROWS)
    removed = session.scalars(delete(AuditEntry).where(AuditEntry.id.in_(some)).returning(AuditEntry.id)).all()
    return len(removed) == _BATCH_ROWS


def remove_idempotency_keys(session: Session, *, keep_days: float) -> bool:
    """Remove keys of submissions that came longer ago than that; False when none of them is left."""
    due = select(IdempotencyKey.owner, IdempotencyKey.key).where(
        IdempotencyKey.created_at < func.now() - timedelta(days=keep_days)
    )
    some = due.order_by(IdempotencyKey.created_at).limit(_BATCH_ROWS)
    key = tuple_(IdempotencyKey.owner, IdempotencyKey.key)
    removed = session.scalars(delete(IdempotencyKey).where(key.in_(some)).returning(IdempotencyKey.key)).all()
    return len(removed) == _BATCH_ROWS


def remove_sessions(session: Session, *, keep_days: float) -> bool:
    """Remove login links and sessions that ended longer ago than that; False when none of them is left.

    Tokens stay for good: one that the stack was set up with, and that was revoked, would be let in again without a row.
    """
    ended_at = func.least(Token.revoked_at, Token.expires_at)
    due = select(Token.sha256).where(Token.kind != "bearer", ended_at < func.now() - timedelta(days=keep_days))
    removed = session.scalars(
        delete(Token).where(Token.sha256.in_(due.limit(_BATCH_ROWS))).returning(Token.sha256)
    ).all()
    return len(removed) == _BATCH_ROWS


def forget_hosts(session: Session, *, after_days: float) -> list[str]:
    """Remove the hosts that were not heard of for so long, with their slots; says which.

    One with a live attempt stays, and one with a quarantined slot: a process may still be on that when it returns.
    """
    live = exists().where(Attempt.host == Host.name, Attempt.ended_at.is_(None))
    in_use = or_(Slot.quarantined_at.is_not(None), Attempt.ended_at.is_(None))
    held = select(Slot.host).join(Attempt, Attempt.id == Slot.attempt_id).where(Slot.host == Host.name, in_use)
    silent = Host.heartbeat_at < func.now() - timedelta(days=after_days)
    return list(session.scalars(delete(Host).where(silent, ~live, ~held.exists()).returning(Host.name)))


def long_over(session: Session, job_ids: Collection[str], *, keep_days: float) -> set[str]:
    """Those of the jobs that ended longer ago than that and hold no slot; a job that is not known is none of them."""
    holds = select(Slot.host).join(Attempt, Attempt.id == Slot.attempt_id).where(Attempt.job_id == Job.id)
    ended = Job.ended_at < func.now() - timedelta(days=keep_days)
    known = Job.id == func.any(cast(list(job_ids), _IDS))
    return set(session.scalars(select(Job.id).where(known, ended, ~holds.exists())))


_IDS = ARRAY(String)
