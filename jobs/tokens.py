"""Bearer tokens: opaque random texts, of which only the SHA-256 is stored. Called by the api.

A token has 256 random bits, so its plain hash cannot be searched for, and looking the hash up tells an attacker
who measures time nothing about the text.
"""

import hashlib
import secrets

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.tables import Token

ADMIN = "admin"  # the name of the token that a stack is set up with


def new_token() -> str:
    """A token that nobody has yet."""
    return f"hora_{secrets.token_urlsafe(32)}"


def token_sha256(text: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def store_token(session: Session, text: str, *, name: str) -> None:
    """Let `text` in from now on, as `name`. One that is there already stays as it is, revoked ones too."""
    row = {"sha256": token_sha256(text), "name": name}
    session.execute(insert(Token).values(row).on_conflict_do_nothing())


def name_of(session: Session, sha256: str) -> str | None:
    """Whose token this is the hash of; None where there is none, or it was revoked."""
    return session.scalar(select(Token.name).where(Token.sha256 == sha256, Token.revoked_at.is_(None)))
