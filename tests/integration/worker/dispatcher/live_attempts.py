"""What a dispatcher has placed and says, and times that a test sets back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle.store import Lease
from jobs.scheduling.queue import Standing, standings
from worker.dispatcher import Dispatcher

MakeDispatcher = Callable[..., Dispatcher]


def live_leases(sessions: Sessions) -> list[Lease]:
    with sessions() as session:
        query = select(Attempt).where(Attempt.ended_at.is_(None)).order_by(Attempt.id)
        return [Lease(row.id, str(row.token), row.job_id, row.number) for row in session.scalars(query)]


def placed_jobs(sessions: Sessions) -> list[str]:
    return [lease.job_id for lease in live_leases(sessions)]


def standing(sessions: Sessions, job_id: str) -> Standing:
    with sessions() as session:
        return standings(session, [job_id], host_timeout_s=60)[job_id]


def began(sessions: Sessions, lease: Lease, *, ago_s: float, **values: Any) -> None:
    """Let an attempt have begun in the past, and train since then."""
    at = func.now() - timedelta(seconds=ago_s)
    times = dict.fromkeys(("created_at", "queued_at", "started_at"), at)
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(**times, **values))
