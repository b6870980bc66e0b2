"""The audit log: who did what, written in the transaction that does it. Called by the api."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from jobs.store import storable
from jobs.tables import AuditEntry


@dataclass(frozen=True)
class Actor:
    """Who asks, and by what."""

    user: str
    token_id: str | None = None
    request_id: str | None = None
    address: str | None = None


def record(session: Session, actor: Actor, action: str, subject: str | None = None, **data: Any) -> None:
    """Write down that `actor` did `action` (noun.verb, such as `job.cancelled`) to `subject`. No secret goes in."""
    row = {
        "actor": actor.user, "token_id": actor.token_id, "request_id": actor.request_id, "address": actor.address,
        "action": action, "subject": subject, "data": storable(data),
    }  # fmt: skip
    session.execute(insert(AuditEntry), [row])
