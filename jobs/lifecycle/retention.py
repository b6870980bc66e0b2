"""Removes what is kept only for some time: rows of jobs that ended long ago, and hosts that were lost long ago.

Called by `worker.retention`; `jobs.telemetry.thinning` thins the series. Each transaction takes one batch, a few
thousand rows of ended jobs, so no writer waits for it. It marks the job's row in the same transaction, so nothing is
done twice.
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import String, cast, delete, exists, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, AuditEntry, Host, IdempotencyKey, Job, LogLine, Slot, Token, UsageHour
from jobs.lifecycle.history import last_lead_host
from jobs.lifecycle.named_jobs import checkpoints_needed

_LOCK = 0x726574656E74  # "retent": an advisory lock's number
_BATCH_ROWS = 5000
_BATCH_JOBS = 100


def take_lock(session: Session) -> bool:
    """Take the lock of retention until the commit. Returns False if another worker holds it."""
    # After many rows were removed, the planner's statistics are out of date. They must not make it read a whole table.
    session.execute(text("SET LOCAL enable_seqscan = off"))
    session.execute(text("SET LOCAL lock_timeout = '2s'"))
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(_LOCK))))


def remove_logs(session: Session, *, keep_days: float) -> bool:
    """Remove log lines of jobs that ended more than `keep_days` ago. Returns False if no such job has any left."""
    due = (Job.ended_at < func.now() - timedelta(days=keep_days), Job.logs_removed_at.is_(None))
    jobs = cast(session.scalars(select(Job.id).where(*due).order_by(Job.ended_at).limit(_BATCH_JOBS)).all(), _IDS)
    # The oldest lines first: `api.polling.versions` sees by the first remaining line that some were removed.
    in_order = select(LogLine.id).where(LogLine.job_id == func.any(jobs)).order_by(LogLine.job_id, LogLine.id)
    batch = in_order.limit(_BATCH_ROWS)
    removed = session.scalars(delete(LogLine).where(LogLine.id.in_(batch)).returning(LogLine.id)).all()
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
    """Remove audit entries older than `keep_days`. Returns False if none of them is left."""
    due = select(AuditEntry.id).where(AuditEntry.at < func.now() - timedelta(days=keep_days))
    batch = due.order_by(AuditEntry.at).limit(_BATCH_ROWS)
    removed = session.scalars(delete(AuditEntry).where(AuditEntry.id.in_(batch)).returning(AuditEntry.id)).all()
    return len(removed) == _BATCH_ROWS


def remove_idempotency_keys(session: Session, *, keep_days: float) -> bool:
    """Remove Idempotency-Keys older than `keep_days`. Returns False if none of them is left."""
    due = select(IdempotencyKey.owner, IdempotencyKey.key).where(
        IdempotencyKey.created_at < func.now() - timedelta(days=keep_days)
    )
    batch = due.order_by(IdempotencyKey.created_at).limit(_BATCH_ROWS)
    key = tuple_(IdempotencyKey.owner, IdempotencyKey.key)
    removed = session.scalars(delete(IdempotencyKey).where(key.in_(batch)).returning(IdempotencyKey.key)).all()
    return len(removed) == _BATCH_ROWS


def remove_usage_hours(session: Session, *, keep_days: float) -> bool:
    """Remove hours of usage older than `keep_days`. Returns False if none of them is left."""
    key = tuple_(UsageHour.project, UsageHour.user_name, UsageHour.hour)
    due = select(UsageHour.project, UsageHour.user_name, UsageHour.hour).where(
        UsageHour.hour < func.now() - timedelta(days=keep_days)
    )
    batch = due.order_by(UsageHour.hour).limit(_BATCH_ROWS)
    removed = session.scalars(delete(UsageHour).where(key.in_(batch)).returning(UsageHour.hour)).all()
    return len(removed) == _BATCH_ROWS


def remove_tokens(session: Session, *, keep_days: float) -> bool:
    """Remove tokens, login links and sessions that ended more than `keep_days` ago. Returns False if none is left.

    A token that no other token created stays forever. Without its row, a revoked token with which the stack was set up
    would be valid again.
    """
    ended_at = func.least(Token.revoked_at, Token.expires_at)
    is_made = or_(Token.kind != "bearer", Token.created_by.is_not(None))
    due = select(Token.sha256).where(is_made, ended_at < func.now() - timedelta(days=keep_days))
    removed = session.scalars(
        delete(Token).where(Token.sha256.in_(due.limit(_BATCH_ROWS))).returning(Token.sha256)
    ).all()
    return len(removed) == _BATCH_ROWS


def forget_hosts(session: Session, *, after_days: float) -> list[str]:
    """Remove hosts without a heartbeat for `after_days`, and their slots. Returns their names.

    A host with a live attempt stays. So does one with a quarantined slot: a process may still be on it when it returns.
    """
    live = exists().where(Attempt.host == Host.name, Attempt.ended_at.is_(None))
    in_use = or_(Slot.quarantined_at.is_not(None), Attempt.ended_at.is_(None))
    held = select(Slot.host).join(Attempt, Attempt.id == Slot.attempt_id).where(Slot.host == Host.name, in_use)
    silent = Host.heartbeat_at < func.now() - timedelta(days=after_days)
    return list(session.scalars(delete(Host).where(silent, ~live, ~held.exists()).returning(Host.name)))


def ended_long_ago(session: Session, job_ids: Collection[str], *, keep_days: float) -> set[str]:
    """Those of the jobs that ended more than `keep_days` ago, or whose files a person removed, and hold no slot.

    Unknown ids are left out, and jobs from whose checkpoints another job continues.
    """
    holds = select(Slot.host).join(Attempt, Attempt.id == Slot.attempt_id).where(Attempt.job_id == Job.id)
    ended = or_(Job.ended_at < func.now() - timedelta(days=keep_days), Job.files_removed_at.is_not(None))
    among = Job.id == func.any(cast(list(job_ids), _IDS))
    found = set(session.scalars(select(Job.id).where(among, ended, ~holds.exists())))
    return found - checkpoints_needed(session) if found else found


def checkpoints_removed(session: Session, job_ids: Collection[str], *, host: str) -> None:
    """Store that this host removed the checkpoints of these jobs, which have ended.

    The bytes are those on a job's last lead host. So they change only when that host has removed them.
    """
    kept = (Job.id == func.any(cast(list(job_ids), _IDS)), Job.checkpoint_bytes > 0)
    # Without artifacts, the whole folder of the job goes. If the hosts share it, the lead host may find it gone.
    is_removed = or_(last_lead_host() == host, Job.artifacts_removed_at.is_not(None))
    session.execute(
        update(Job).where(*kept, is_removed).values(checkpoint_bytes=0, revision=Job.revision + 1),
        execution_options={"synchronize_session": False},
    )


_IDS = ARRAY(String)
