"""The history of a job: its events, its attempts, and the lines that its ranks printed.

Called by the api and by retention.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, ScalarSelect, select
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NUMBER, Page, page_of
from jobs.db.tables import Attempt, Job, JobEvent, LogLine
from jobs.db.text_search import contains, limited_search
from jobs.model.log_levels import LogLevel


@dataclass(frozen=True)
class LogFilter:
    """Which lines of a job to read. A line must match every part that is set."""

    ranks: Sequence[int] = ()  # -1: the launcher
    attempt: int | None = None
    level: LogLevel | None = None  # this one, or a more serious one
    search: str | None = None  # a text that they contain, in upper or lower case
    after: int = 0  # only lines with a greater id
    before: int | None = None  # only lines with a smaller id
    since: datetime | None = None  # printed then or later
    until: datetime | None = None  # printed before

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL."""
        conditions = [LogLine.id > self.after]
        if self.before is not None:
            conditions.append(LogLine.id < self.before)
        if self.ranks:
            conditions.append(LogLine.rank.in_(self.ranks))
        if self.attempt is not None:
            conditions.append(LogLine.attempt == self.attempt)
        if self.level is not None:
            conditions.append(LogLine.level >= self.level.number)
        if self.search is not None:
            conditions.append(contains(LogLine.text, self.search, lowered=False))
        if self.since is not None:
            conditions.append(LogLine.at >= self.since)
        if self.until is not None:
            conditions.append(LogLine.at < self.until)
        return conditions


@dataclass(frozen=True)
class LogPage:
    """Some lines, oldest first, and the ids from which to continue: after the last line, and before the first one."""

    items: Sequence[LogLine]
    next_after: int
    previous_before: int | None = None


def log_lines(
    session: Session, job_id: str, line_filter: LogFilter = LogFilter(), *, limit: int = 1000, newest: bool = False
) -> LogPage:
    """The first `limit` lines that match the filter; with `newest` the last ones. Raises `TooMuchToSearch`."""
    query = select(LogLine).where(LogLine.job_id == job_id, *line_filter.conditions())
    with limited_search(session, line_filter.search):
        if newest:
            return _newest(
                session.scalars(query.order_by(LogLine.id.desc()).limit(limit + 1)).all(), line_filter, limit
            )
        lines = session.scalars(query.order_by(LogLine.id).limit(limit)).all()
    return LogPage(lines, lines[-1].id if lines else line_filter.after)


def _newest(newest_first: Sequence[LogLine], line_filter: LogFilter, limit: int) -> LogPage:
    """The page of lines that were read newest first. One more than `limit` was read, if there is one."""
    lines = newest_first[:limit][::-1]
    if lines:
        return LogPage(lines, lines[-1].id, lines[0].id if len(newest_first) > limit else None)
    return LogPage(lines, line_filter.after if line_filter.before is None else line_filter.before - 1)


def events(session: Session, job_id: str, *, limit: int, cursor: str | None = None) -> Page[JobEvent]:
    """A page of a job's events, oldest first. Raises `InvalidCursor`."""
    query = select(JobEvent).where(JobEvent.job_id == job_id, JobEvent.id > position(session, job_id, cursor))
    rows = session.scalars(query.order_by(JobEvent.id).limit(limit + 1)).all()
    return page_of(session, rows, by=BY_NUMBER, limit=limit, of=_events_of(job_id), position=lambda event: (event.id,))


def position(session: Session, job_id: str, cursor: str | None) -> int:
    """The id of the event after which a page of `events` begins. Raises `InvalidCursor`."""
    return 0 if cursor is None else cursors.decode(session, cursor, by=BY_NUMBER, of=_events_of(job_id))[0]


def _events_of(job_id: str) -> str:
    return f"events {job_id}"


def last_lead_host() -> ScalarSelect[str]:
    """The lead host of a job's newest attempt with a rank that started, for a statement about jobs. NULL: none did."""
    started = select(Attempt.host).where(Attempt.job_id == Job.id, Attempt.started_at.is_not(None))
    return started.order_by(Attempt.number.desc()).limit(1).correlate(Job).scalar_subquery()


def attempts(session: Session, job_id: str, *, limit: int, cursor: str | None = None) -> Page[Attempt]:
    """A page of a job's attempts, first to newest. Raises `InvalidCursor`."""
    identity = f"attempts {job_id}"
    query = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number).limit(limit + 1)
    if cursor is not None:
        query = query.where(Attempt.number > cursors.decode(session, cursor, by=BY_NUMBER, of=identity)[0])
    rows = session.scalars(query).all()
    return page_of(session, rows, by=BY_NUMBER, limit=limit, of=identity, position=lambda attempt: (attempt.number,))
