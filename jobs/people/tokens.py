"""Tokens: opaque random texts, of which only the SHA-256 is stored, and what each lets its user do. Called by the api.

A token has 256 random bits, so its plain hash cannot be searched for. It is found by that hash in an index, which is as
good as a comparison in constant time: whoever measures how long a look-up takes learns, at best, how far the hash of
their guess agrees with a stored one, and cannot choose the next guess so that its hash agrees further.

    TokenNotFound       no token that people can speak of has this id
    LoginRefused        the code of a login link is unknown, was used, or is too old

Who may make which token, and who may take one away, is in `jobs.people.rights`.
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
from jobs.db.cursors import Page, page_of
from jobs.db.tables import Token, User
from jobs.model.scopes import Scope

ADMIN = "admin"  # the user whose token a stack is set up with
LOGIN_S = 10 * 60.0
SESSION_S = 12 * 3600.0
Kind = Literal["bearer", "session", "login"]

_USE_IS_NOTED_EVERY_S = 5 * 60.0


class TokenNotFound(LookupError):
    """No token that people can speak of has this id."""


class LoginRefused(ValueError):
    """The code of a login link is unknown, was used, or is too old."""


@dataclass(frozen=True)
class Bearer:
    """Who holds a token that is let in, and what it lets them do."""

    user: str
    token_id: str
    kind: Kind
    scope: Scope
    rate_limit_per_s: float | None = None  # None: the settings'
    expires_at: datetime | None = None


class Found(NamedTuple):
    """Who holds a token, for how long from now by the database's clock, and whether its use was noted lately."""

    bearer: Bearer
    expires_in_s: float | None
    is_use_noted: bool


class Started(NamedTuple):
    """A session, and its text."""

    text: str
    bearer: Bearer
    expires_at: datetime


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
    """Let `text` in from now on, as `user`; the token's id. One that is there already stays as it is, revoked too.

    `created_by` is the id of the token by which it is made.
    """
    add_user(session, user)
    sha256 = token_sha256(text)
    row = {
        "sha256": sha256, "id": sha256[:12], "kind": kind, "user_name": user, "name": name, "scope": scope,
        "rate_limit_per_s": rate_limit_per_s, "created_by": created_by, "expires_at": expires_at,
    }  # fmt: skip
    session.execute(insert(Token).values(row).on_conflict_do_nothing(index_elements=[Token.sha256]))
    return sha256[:12]


def find(session: Session, sha256: str) -> Found | None:
    """Who holds the token with this hash; None where nobody may come in with it (any more)."""
    noted_lately = Token.last_used_at > func.now() - timedelta(seconds=_USE_IS_NOTED_EVERY_S)
    row = session.execute(
        select(
            Token.user_name, Token.id, Token.kind, Token.scope, Token.rate_limit_per_s, Token.expires_at,
            extract("epoch", Token.expires_at - func.clock_timestamp()).label("expires_in_s"),
            func.coalesce(noted_lately, False).label("is_use_noted"),
        )
        .join(User, User.name == Token.user_name)
        .where(Token.sha256 == sha256, User.disabled_at.is_(None), *_LIVE)
    ).one_or_none()  # fmt: skip
    if row is None:
        return None
    kind: Kind = row.kind
    bearer = Bearer(row.user_name, row.id, kind, Scope(row.scope), row.rate_limit_per_s, row.expires_at)
    return Found(bearer, None if row.expires_in_s is None else float(row.expires_in_s), row.is_use_noted)


def let_in(session: Session, sha256s: Collection[str]) -> set[str]:
    """Those of the hashes whose tokens are let in."""
    known = select(Token.sha256).join(User, User.name == Token.user_name)
    return set(session.scalars(known.where(Token.sha256.in_(sha256s), User.disabled_at.is_(None), *_LIVE)))


def note_use(session: Session, token_id: str) -> None:
    """Write down that a token was used just now."""
    session.execute(update(Token).where(Token.id == token_id).values(last_used_at=func.now()))


def start_session(session: Session, code: str) -> Started:
    """A session in exchange for the code of a login link, which is used up. Raises `LoginRefused`.

    The UPDATE is the check: of several who come with a code, one gets the session.
    """
    used = (
        update(Token)
        .where(Token.sha256 == token_sha256(code), Token.kind == "login", *_LIVE)
        .values(revoked_at=func.now(), last_used_at=func.now())
        .returning(Token.id, Token.created_by)
    )
    link = session.execute(used, execution_options={"synchronize_session": False}).one_or_none()
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
    return Started(text, bearer, row.expires_at)


def get_token(session: Session, token_id: str) -> Token:
    """The token with this id. Raises `TokenNotFound`, for a login link's as well: they are nobody's to see."""
    token = session.scalar(select(Token).where(Token.id == token_id, Token.kind != "login"))
    if token is None:
        raise TokenNotFound(token_id)
    return token


def withdraw(session: Session, token_id: str) -> list[str]:
    """Let nobody in with a token, nor with the links and sessions that came of it; the ids of all that ended now.

    Tokens that were made with it stay: `created_by` of each says which these are.
    """
    came_of_it = select(Token.id).where(Token.id == token_id).cte(recursive=True)
    came_of_it = came_of_it.union(
        select(Token.id).join(came_of_it, Token.created_by == came_of_it.c.id).where(Token.kind != "bearer")
    )
    ended = (
        update(Token)
        .where(Token.id.in_(select(came_of_it.c.id)), Token.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .returning(Token.id)
    )
    return list(session.scalars(ended, execution_options={"synchronize_session": False}))


def list_tokens(
    session: Session, *, user: str, live: bool | None = None, limit: int = 50, cursor: str | None = None
) -> Page[Token]:
    """A page of somebody's tokens and sessions, newest first. Raises `InvalidCursor`. `live`: those that are let in."""
    identity = f"tokens {live} {user}"
    query = select(Token).where(Token.user_name == user, Token.kind != "login")
    if live is not None:
        good = and_(*_LIVE)
        query = query.where(good if live else ~good)
    if cursor is not None:
        created_at, token_id = cursors.decode(cursor, of=identity)
        position = tuple_(datetime.fromisoformat(str(created_at)), str(token_id))
        query = query.where(tuple_(Token.created_at, Token.id) < position)
    query = query.order_by(Token.created_at.desc(), Token.id.desc()).limit(limit + 1)
    found = session.scalars(query).all()
    return page_of(found, limit=limit, of=identity, position=lambda token: (token.created_at.isoformat(), token.id))


_LIVE = (Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), Token.expires_at > func.now()))
