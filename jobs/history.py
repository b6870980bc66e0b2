"""What happened to a job: its events, its attempts, and the lines its ranks printed. Called by the api."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs import cursors
from jobs.cursors import Page, page_of
from jobs.tables import Attempt, JobEvent, LogLine


@dataclass(frozen=True)
class LogPage:
    """Some lines, oldest first, and the id of the last one: where to go on from."""

    items: Sequence[LogLine]
    next_after: int


def log_lines(
    session: Session,
    job_id: str,
    *,
    rank: int | None = None,
    after: int = 0,
    tail: int | None = None,
    limit: int = 1000,
) -> LogPage:
    """The first `limit` lines after the line `after`, or with `tail` the newest so many of them.

    Rank -1 is the launcher. `next_after` is `after` itself where there is no line yet.
    """
    query = select(LogLine).where(LogLine.job_id == job_id, LogLine.id > after)
    if rank is not None:
        query = query.where(LogLine.rank == rank)
    if tail is None:
        lines = session.scalars(query.order_by(LogLine.id).limit(limit)).all()
    else:
        lines = session.scalars(query.order_by(LogLine.id.desc()).limit(tail)).all()[::-1]
    return LogPage(lines, lines[-1].id if lines else after)


def events(session: Session, job_id: str, *, limit: int, cursor: str | None = None) -> Page[JobEvent]:
    """A page of a job's events, oldest first. Raises `InvalidCursor`."""
    query = select(JobEvent).where(JobEvent.job_id == job_id, JobEvent.id > position(job_id, cursor))
    found = session.scalars(query.order_by(JobEvent.id).limit(limit + 1)).all()
    return page_of(found, limit=limit, of=_events_of(job_id), position=lambda event: (event.id,))


def position(job_id: str, cursor: str | None) -> int:
    """The id of the event behind which a page of `events` begins. Raises `InvalidCursor`."""
    return 0 if cursor is None else int(cursors.decode(cursor, of=_events_of(job_id))[0])


def _events_of(job_id: str) -> str:
    return f"events {job_id}"


def attempts(session: Session, job_id: str, *, limit: int, cursor: str | None = None) -> Page[Attempt]:
    """A page of a job's attempts, first to newest. Raises `InvalidCursor`."""
    identity = f"attempts {job_id}"
    query = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number).limit(limit + 1)
    if cursor is not None:
        query = query.where(Attempt.number > cursors.decode(cursor, of=identity)[0])
    found = session.scalars(query).all()
    return page_of(found, limit=limit, of=identity, position=lambda attempt: (attempt.number,))
