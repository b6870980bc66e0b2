"""Which copies in the store are kept no more, by the rows of their jobs. Called by `worker.copies.old`.

One host at a time looks at the copies of all jobs, about once an hour: whoever takes the turn. A job's row says when
what is due of it was last removed, so that nobody asks the store for it again. It is looked at a second time a day
later: a copy that was under way may have added something. So it is after a host that was away has said that it copied
all. No host is waited for, because it may be gone for good.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, String, and_, cast, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, MarkedStore, Slot
from jobs.lifecycle.deletion import deleted_among
from jobs.lifecycle.named_jobs import checkpoints_needed

_EVERY = timedelta(hours=1)
_AGAIN_AFTER = timedelta(days=1)


@dataclass(frozen=True)
class OldCopies:
    """What of a job the store keeps no more."""

    job_id: str
    checkpoints: bool
    artifacts: bool


def take_turn(session: Session, url: str) -> bool:
    """Begin to look at all copies in a store. False if a host did so within the hour, or nothing was copied yet."""
    is_due = or_(
        MarkedStore.tidied_at.is_(None),
        MarkedStore.tidied_at < func.now() - _EVERY,
        MarkedStore.tidied_at > func.now(),  # the database's clock was ahead
    )
    turn = update(MarkedStore).where(MarkedStore.url == url, is_due).values(tidied_at=func.now())
    return session.scalar(turn.returning(MarkedStore.url)) is not None


def old_copies(session: Session, job_ids: Sequence[str], *, keep_days: float) -> list[OldCopies]:
    """What is kept no more of these jobs, where some of it may still be in the store. Unknown ids are left out.

    Checkpoints are kept for `keep_days` after a job's end, or longer while another job continues from them, and
    artifacts until they are marked as removed. Of a deleted job nothing is kept.
    """
    holds_slot = exists().where(Slot.attempt_id == Attempt.id, Attempt.job_id == Job.id)
    checkpoints_until = func.least(Job.ended_at + timedelta(days=keep_days), Job.files_removed_at)
    is_needed = Job.id.in_(checkpoints_needed(session))
    checkpoints = func.coalesce(and_(checkpoints_until <= func.now(), ~holds_slot, ~is_needed), False)
    artifacts = Job.artifacts_removed_at.is_not(None)
    some_are_there = or_(
        and_(checkpoints, _may_be_there(checkpoints_until)), and_(artifacts, _may_be_there(Job.artifacts_removed_at))
    )
    among = Job.id == func.any(cast(list(job_ids), ARRAY(String)))
    query = select(Job.id, checkpoints, artifacts).where(among, some_are_there).order_by(Job.id)
    deleted = [OldCopies(job_id, True, True) for job_id in sorted(deleted_among(session, job_ids))]
    return [*(OldCopies(*row) for row in session.execute(query)), *deleted]


def _may_be_there(until: SQLColumnExpression[Any]) -> ColumnElement[bool]:
    """Whether copies that were kept until then may still be in the store."""
    last_copied_at = select(func.max(Attempt.copied_at)).where(Attempt.job_id == Job.id).scalar_subquery()
    since = func.greatest(until, last_copied_at)
    removed_at = Job.copies_tidied_at
    is_second_time = and_(removed_at < since + _AGAIN_AFTER, since + _AGAIN_AFTER < func.now())
    return or_(removed_at.is_(None), removed_at < since, is_second_time)


def copies_removed(session: Session, url: str, job_id: str) -> None:
    """Store that what is kept no more of a job was removed just now. The turn lasts on."""
    session.execute(update(Job).where(Job.id == job_id).values(copies_tidied_at=func.now()))
    session.execute(update(MarkedStore).where(MarkedStore.url == url).values(tidied_at=func.now()))
