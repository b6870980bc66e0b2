"""The audit log: who did what, written in the transaction that does it, and read by admins. Called by the api."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, insert, select, tuple_
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_TIME_AND_NUMBER, Page, page_of
from jobs.db.storable import storable
from jobs.db.tables import AuditEntry


@dataclass(frozen=True)
class Actor:
    """Who makes a request, with which token, and from where."""

    user: str
    token_id: str | None = None
    request_id: str | None = None
    address: str | None = None


def record(session: Session, actor: Actor, action: str, subject: str | None = None, **data: Any) -> None:
    """Store that `actor` did `action` (noun.verb, such as `job.cancelled`) to `subject`. Entries contain no secrets."""
    row = {
        "actor": actor.user, "token_id": actor.token_id, "request_id": actor.request_id, "address": actor.address,
        "action": action, "subject": subject, "data": storable(data),
    }  # fmt: skip
    session.execute(insert(AuditEntry), [row])


@dataclass(frozen=True)
class AuditFilter:
    """Which entries to list. An entry must match every part that is set."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None  # before this time, not at it

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL."""
        columns = {AuditEntry.actor: self.actor, AuditEntry.action: self.action, AuditEntry.subject: self.subject}
        conditions = [column == value for column, value in columns.items() if value is not None]
        if self.since is not None:
            conditions.append(AuditEntry.at >= self.since)
        if self.until is not None:
            conditions.append(AuditEntry.at < self.until)
        return conditions


def list_entries(
    session: Session, entry_filter: AuditFilter, *, limit: int = 50, cursor: str | None = None
) -> Page[AuditEntry]:
    """A page of entries, newest first. Raises `InvalidCursor`."""
    moments = [moment and moment.isoformat() for moment in (entry_filter.since, entry_filter.until)]
    identity = json.dumps(["audit", entry_filter.actor, entry_filter.action, entry_filter.subject, *moments])
    query = select(AuditEntry).where(*entry_filter.conditions())
    if cursor is not None:
        position = tuple_(*cursors.decode(session, cursor, by=BY_TIME_AND_NUMBER, of=identity))
        query = query.where(tuple_(AuditEntry.at, AuditEntry.id) < position)
    query = query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc()).limit(limit + 1)
    rows = session.scalars(query).all()
    return page_of(
        session, rows, by=BY_TIME_AND_NUMBER, limit=limit, of=identity, position=lambda entry: (entry.at, entry.id)
    )
