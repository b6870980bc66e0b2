"""Bursts in the rows: which one a new job belongs to, and the levels that its waiting jobs get from the others.

Called by `submission`, `leases`, `usage` and the dispatcher, in their transactions. `jobs.model.bursts` has the rule.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from sqlalchemy import ColumnElement, Float, String, bindparam, cast, exists, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, RunTime
from jobs.model.attained_service import LEVELS_SLOT_S
from jobs.model.bursts import GAP_S, expected_level
from jobs.model.states import ACTIVE, Status


def join(session: Session, job: Job) -> None:
    """Let a new job continue the burst of the newest one like it, or begin a burst. It gets its level."""
    newest = session.execute(_NEWEST_LIKE, {"owner": job.owner, "project": job.project, "gpus": job.gpus}).one_or_none()
    job.burst = job.id if newest is None else newest.burst
    session.add(job)
    session.flush()
    if newest is not None and newest.level:  # otherwise no burst was raised to which the newest job belongs
        raise_waiting(session, newest.burst)


_NEWEST_LIKE = (
    select(Job.burst, Job.level)
    .where(
        Job.owner == bindparam("owner"), Job.project == bindparam("project"), Job.gpus == bindparam("gpus"),
        Job.burst.is_not(None), Job.created_at >= func.now() - timedelta(seconds=GAP_S),
    )
    .order_by(Job.created_at.desc(), Job.id.desc())
    .limit(1)
)  # fmt: skip


def enter_levels(session: Session, levels: Mapping[str, int]) -> None:
    """Store the levels that live jobs have entered, by job, and raise the waiting jobs of their bursts."""
    if not levels:
        return
    for level in set(levels.values()):
        entered = [job_id for job_id, of_job in levels.items() if of_job == level]
        raise_to(session, level, _is_one_of(entered), Job.status.in_(ACTIVE))
    of_these = select(Job.burst).where(_is_one_of(levels), Job.burst.is_not(None)).distinct()
    for burst in session.scalars(of_these).all():
        if burst is not None:
            raise_waiting(session, burst)


def raise_waiting(session: Session, burst: str) -> None:
    """Give the waiting jobs of a burst the level that is expected of them, unless runs like them took less."""
    held_s = func.greatest(cast(func.extract("epoch", func.now() - Attempt.created_at), Float(53)), 0.0)
    held_slot_s = (
        select(held_s * Attempt.gpus).where(Attempt.job_id == Job.id, Attempt.ended_at.is_(None)).scalar_subquery()
    )
    slot_s = Job.slot_seconds + func.coalesce(held_slot_s, 0.0)
    had_attempts = select(slot_s.label("slot_s"), Job.ended_at).where(Job.burst == burst, Job.attempt > 0).subquery()
    attained, has_ended = had_attempts.c.slot_s, had_attempts.c.ended_at.is_not(None)
    entered = [func.count().filter(attained >= limit) for limit in LEVELS_SLOT_S]
    ended_before = [func.count().filter(has_ended, attained < limit) for limit in LEVELS_SLOT_S]
    counts = session.execute(select(*entered, *ended_before)).one()
    level = expected_level(counts[: len(entered)], counts[len(entered) :])
    if level:
        shortest_s = select(func.min(func.unnest(RunTime.durations_s).column_valued("duration_s"))).scalar_subquery()
        takes_less = exists().where(RunTime.run_key == Job.run_key, shortest_s * Job.gpus < LEVELS_SLOT_S[level - 1])
        raise_to(session, level, Job.burst == burst, Job.status == Status.QUEUED, ~takes_less)


def raise_to(session: Session, level: int, *which: ColumnElement[bool]) -> None:
    """Give these jobs a level, unless they have it or a higher one.

    Rows that others hold are left out: nothing waits here, and there is another occasion soon.
    """
    lower = select(Job.id).where(*which, Job.level < level)
    found = session.scalars(lower.with_for_update(skip_locked=True)).all()
    if found:
        raised = update(Job).where(_is_one_of(found)).values(level=level, revision=Job.revision + 1)
        session.execute(raised, execution_options={"synchronize_session": False})


def _is_one_of(job_ids: Iterable[str]) -> ColumnElement[bool]:
    return Job.id == func.any(cast([*job_ids], ARRAY(String)))
