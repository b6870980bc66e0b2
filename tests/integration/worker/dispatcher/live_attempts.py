"""The live attempts of jobs that a dispatcher placed, and how a test completes them."""

from collections.abc import Callable

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from worker.dispatcher import Dispatcher

MakeDispatcher = Callable[..., Dispatcher]


def live_leases(sessions: Sessions) -> list[Lease]:
    with sessions() as session:
        query = select(Attempt).where(Attempt.ended_at.is_(None)).order_by(Attempt.id)
        return [Lease(row.id, str(row.token), row.job_id, row.number) for row in session.scalars(query)]


def placed_jobs(sessions: Sessions) -> list[str]:
    return [lease.job_id for lease in live_leases(sessions)]


def complete(sessions: Sessions, lease: Lease, reason: EndReason = EndReason.COMPLETED) -> None:
    with sessions.begin() as session:
        leases.end(session, lease, reason)
        leases.release(session, lease.attempt_id)
