"""Tokens: opaque random texts with scopes. Only their SHA-256 is stored. Called by the api.

A token has 256 random bits, so it cannot be found from its hash. It is looked up by that hash in an index, which is as
safe as a comparison in constant time. An attacker who times the look-up learns, at best, how many leading bits of a
guess's hash agree with a stored one. They cannot choose the next guess so that more bits agree.

    TokenNotFound       no token has this id, apart from tokens of login links
    LoginRefused        the code of a login link is unknown, was used, or is too old

`jobs.people.rights` says who may create and revoke which token.
"""

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import and_, extract, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased

from jobs.db import cursors
from jobs.db.cursors import BY_TIME, Page, page_of
from jobs.db.tables import Token, User
from jobs.model.scopes import Scope

ADMIN = "admin"  # the user of the token with which a stack is set up
LOGIN_S = 10 * 60.0
SESSION_S = 12 * 3600.0
Kind = Literal["bearer", "session", "login"]

_USE_IS_NOTED_EVERY_S = 5 * 60.0


class TokenNotFound(LookupError):
    """No token has this id, apart from tokens of login links."""


class LoginRefused(ValueError):
    """The code of a login link is unknown, was used, or is too old."""


@dataclass(frozen=True)
class Bearer:
    """The holder of a valid token, and what the token allows."""

    user: str
    token_id: str
    kind: Kind
    scope: Scope
    rate_limit_per_s: float | None = None  # None: the settings'
    expires_at: datetime | None = None


class TokenHolder(NamedTuple):
    """The holder of a token, how long it is still valid, and whether its use was stored recently."""

    bearer: Bearer
    expires_in_s: float | None
    is_use_noted: bool


class StartedSession(NamedTuple):
    """A session, and its text."""

    text: str
    bearer: Bearer
    expires_at: datetime


def new_token() -> str:
    """A new token: its text."""
    return f"hora_{secrets.token_urlsafe(32)}"


def token_sha256(text: str) -> str:
    """The hash of a token, which is stored in its place."""
    return hashlib.sha256(text.encode()).hexdigest()


def add_user(session: Session, name: str) -> None:
    """Add a user of this name. An existing one stays as it is."""
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
    """Make `text` a valid token of `user`; returns its id. An existing token stays as it is, even if it is revoked.

    `created_by` is the id of the token that created it.
    """
    add_user(session, user)
    sha256 = token_sha256(text)
    row = {
        "sha256": sha256, "id": sha256[:12], "kind": kind, "user_name": user, "name": name, "scope": scope,
        "rate_limit_per_s": rate_limit_per_s, "created_by": created_by, "expires_at": expires_at,
    }  # fmt: skip
    session.execute(insert(Token).values(row).on_conflict_do_nothing(index_elements=[Token.sha256]))
    return sha256[:12]


def find(session: Session, sha256: str) -> TokenHolder | None:
    """The holder of the token with this hash. None if there is no such token, or it is no longer valid."""
    was_noted = Token.last_used_at > func.now() - timedelta(seconds=_USE_IS_NOTED_EVERY_S)
    row = session.execute(
        select(
            Token.user_name, Token.id, Token.kind, Token.scope, Token.rate_limit_per_s, Token.expires_at,
            extract("epoch", Token.expires_at - func.clock_timestamp()).label("expires_in_s"),
            func.coalesce(was_noted, False).label("is_use_noted"),
        )
        .join(User, User.name == Token.user_name)
        .where(Token.sha256 == sha256, User.disabled_at.is_(None), *_LIVE)
    ).one_or_none()  # fmt: skip
    if row is None:
        return None
    kind: Kind = row.kind
    bearer = Bearer(row.user_name, row.id, kind, Scope(row.scope), row.rate_limit_per_s, row.expires_at)
    return TokenHolder(bearer, None if row.expires_in_s is None else float(row.expires_in_s), row.is_use_noted)


def valid_hashes(session: Session, sha256s: Collection[str]) -> set[str]:
    """Those of the hashes whose tokens are valid."""
    tokens = select(Token.sha256).join(User, User.name == Token.user_name)
    return set(session.scalars(tokens.where(Token.sha256.in_(sha256s), User.disabled_at.is_(None), *_LIVE)))


def note_use(session: Session, token_id: str) -> None:
    """Store that a token was used just now."""
    session.execute(update(Token).where(Token.id == token_id).values(last_used_at=func.now()))


def start_session(session: Session, code: str) -> StartedSession:
    """Start a session with the code of a login link. The code works once. Raises `LoginRefused`.

    The UPDATE is the check: if several requests have the same code, only one gets the session.
    """
    use_link = (
        update(Token)
        .where(Token.sha256 == token_sha256(code), Token.kind == "login", *_LIVE)
        .values(revoked_at=func.now(), last_used_at=func.now())
        .returning(Token.id, Token.created_by)
    )
    link = session.execute(use_link, execution_options={"synchronize_session": False}).one_or_none()
    maker = aliased(Token)
    still_good = and_(maker.revoked_at.is_(None), or_(maker.expires_at.is_(None), maker.expires_at > func.now()))
    row = link and session.execute(
        select(
            Token.user_name, Token.scope, Token.rate_limit_per_s,
            func.least(func.now() + timedelta(seconds=SESSION_S), maker.expires_at).label("expires_at"),
        )
        .join(User, User.name == Token.user_name)
        .outerjoin(maker, maker.id == Token.created_by)
        .where(Token.id == link.id, User.disabled_at.is_(None), or_(maker.id.is_(None), still_good))
    ).one_or_none()  # fmt: skip
    if not link or not row:
        raise LoginRefused
    text, scope = new_token(), Scope(row.scope)
    token_id = store_token(
        session, text, user=row.user_name, scope=scope, name="login", kind="session", expires_at=row.expires_at,
        rate_limit_per_s=row.rate_limit_per_s, created_by=link.id,
    )  # fmt: skip
    bearer = Bearer(row.user_name, token_id, "session", scope, row.rate_limit_per_s, row.expires_at)
    return StartedSession(text, bearer, row.expires_at)


def get_token(session: Session, token_id: str) -> Token:
    """The token with this id. Raises `TokenNotFound`, also for the token of a login link, which nobody may see."""
    token = session.scalar(select(Token).where(Token.id == token_id, Token.kind != "login"))
    if token is None:
        raise TokenNotFound(token_id)
    return token


def revoke_with_sessions(session: Session, token_id: str) -> list[str]:
    """Revoke a token, and the login links and sessions made with it. Returns the ids of all that ended now.

    Tokens that it created stay valid; they have its id in `created_by`.
    """
    made_with_it = select(Token.id).where(Token.id == token_id).cte(recursive=True)
    made_with_it = made_with_it.union(
        select(Token.id).join(made_with_it, Token.created_by == made_with_it.c.id).where(Token.kind != "bearer")
    )
    revoke = (
        update(Token)
        .where(Token.id.in_(select(made_with_it.c.id)), Token.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .returning(Token.id)
    )
    return list(session.scalars(revoke, execution_options={"synchronize_session": False}))


def list_tokens(
    session: Session,
    *,
    user: str,
    widest: Scope = Scope.ADMIN,
    live: bool | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Token]:
    """A page of a user's tokens and sessions with scopes up to `widest`, newest first. Raises `InvalidCursor`.

    `live`: True for only the valid ones, False for the others, None for all.
    """
    identity = f"tokens {live} {user}"
    query = select(Token).where(Token.user_name == user, Token.kind != "login", Token.scope.in_(widest.covered))
    if live is not None:
        good = and_(*_LIVE)
        query = query.where(good if live else ~good)
    if cursor is not None:
        position = tuple_(*cursors.decode(session, cursor, by=BY_TIME, of=identity))
        query = query.where(tuple_(Token.created_at, Token.id) < position)
    query = query.order_by(Token.created_at.desc(), Token.id.desc()).limit(limit + 1)
    rows = session.scalars(query).all()
    return page_of(
        session, rows, by=BY_TIME, limit=limit, of=identity, position=lambda token: (token.created_at, token.id)
    )


_LIVE = (Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), Token.expires_at > func.now()))
