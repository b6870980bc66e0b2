"""Tokens: opaque random texts, of which only the SHA-256 is stored, and what each lets its user do. Called by the api.

A token has 256 random bits, so its plain hash cannot be searched for, and looking the hash up tells an attacker
who measures time nothing about the text.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from sqlalchemy import func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.tables import Token, User

ADMIN = "admin"  # the user whose token a stack is set up with
Kind = Literal["bearer", "session", "login"]


class Scope(StrEnum):
    """What a token lets its user do; each includes those before it."""

    READ = "read"
    SUBMIT = "submit"  # and steer what is their own, or their projects'
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Whether this is enough where `needed` is asked for."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Bearer:
    """Who holds a token that is let in, and what it lets them do."""

    user: str
    token_id: str
    kind: Kind
    scope: Scope
    rate_limit_per_s: float | None = None  # None: the settings'
    expires_at: datetime | None = None


def new_token() -> str:
    """A token that nobody has yet."""
    return f"hora_{secrets.token_urlsafe(32)}"


def token_sha256(text: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def add_user(session: Session, name: str) -> None:
    """Let there be a user of this name. One that is there already stays as it is."""
    session.execute(insert(User).values(name=name).on_conflict_do_nothing())


def store_token(
    session: Session,
    text: str,
    *,
    user: str,
    scope: Scope,
    name: str = "",
    kind: Kind = "bearer",
    expires_at: datetime | None = None,
    rate_limit_per_s: float | None = None,
    created_by: str | None = None,
) -> str:
    """Let `text` in from now on, as `user`; the token's id. One that is there already stays as it is, revoked too."""
    add_user(session, user)
    sha256 = token_sha256(text)
    row = {
        "sha256": sha256, "id": sha256[:12], "kind": kind, "user_name": user, "name": name, "scope": scope,
        "rate_limit_per_s": rate_limit_per_s, "created_by": created_by, "expires_at": expires_at,
    }  # fmt: skip
    session.execute(insert(Token).values(row).on_conflict_do_nothing(index_elements=[Token.sha256]))
    return sha256[:12]


def bearer_of(session: Session, sha256: str) -> Bearer | None:
    """Who holds the token with this hash; None where nobody may come in with it (any more)."""
    fresh = or_(Token.expires_at.is_(None), Token.expires_at > func.now())
    row = session.execute(
        select(Token.user_name, Token.id, Token.kind, Token.scope, Token.rate_limit_per_s, Token.expires_at)
        .join(User, User.name == Token.user_name)
        .where(Token.sha256 == sha256, Token.revoked_at.is_(None), User.disabled_at.is_(None), fresh)
    ).one_or_none()
    if row is None:
        return None
    kind: Kind = row.kind
    return Bearer(row.user_name, row.id, kind, Scope(row.scope), row.rate_limit_per_s, row.expires_at)
