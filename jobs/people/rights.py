"""The rights of users: which tokens they may create and revoke, and whose jobs they may steer. Called by the api.

Every function works in the caller's transaction; the caller commits.

    NotAllowed          their token or their projects do not allow this
    UserNotFound        there is no user of this name
    UserDisabled        a disabled user gets no tokens
    TooManyTokens       the user has, or made in a day, as many tokens as allowed
    TooManyLogins       the user made as many login links in a day as allowed
    LastAdmin           after this, nobody could administer the service
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, case, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page, page_of
from jobs.db.tables import ProjectMember, Token, User
from jobs.model.scopes import Scope
from jobs.people.tokens import LOGIN_S, Bearer, add_user, get_token, new_token, revoke_with_sessions, store_token
from jobs.views.people import NewToken

MOST_TOKENS = 100  # valid ones of one user
MOST_NEW_TOKENS = 500  # of one user in a day
MOST_OPEN_LINKS = 20  # login links of one user that were not used: a further one replaces the oldest
MOST_LOGINS = 500  # login links of one user in a day that were used, or are open

_ADMINS = 0x61646D696E73  # "admins": an advisory lock's number
_USERS = "users"  # what the cursors of their list belong to


class NotAllowed(PermissionError):
    """Their token or their projects do not allow this; the text says why."""


class UserNotFound(LookupError):
    """There is no user of this name."""


class UserDisabled(ValueError):
    """A disabled user gets no tokens."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the user {name} is disabled")


class TooManyTokens(ValueError):
    """The user has, or made in a day, as many tokens as allowed."""


class TooManyLogins(ValueError):
    """The user made as many login links in a day as allowed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} used {MOST_LOGINS} login links in a day, the most allowed: keep a session longer")


class LastAdmin(ValueError):
    """After this, nobody could administer the service."""

    def __init__(self) -> None:
        super().__init__("no other user has a token with the scope admin: create one first")


@dataclass(frozen=True)
class UserLine:
    """A user, with the number, widest scope and last use of their valid tokens."""

    name: str
    created_at: datetime
    disabled_at: datetime | None
    tokens: int
    scope: Scope | None  # the widest of them
    last_used_at: datetime | None


def make_token(session: Session, by: Bearer, new: NewToken, *, most_per_s: float | None) -> tuple[str, Token]:
    """Create a token; returns its text and its row. It has no more rights than the token of `by`, and expires no later.

    `most_per_s` is the limit on the requests of `by`. Raises `NotAllowed`, `UserDisabled`, `TooManyTokens`.
    """
    user = new.user or by.user
    if user != by.user and by.scope is not Scope.ADMIN:
        raise NotAllowed(f"only admins may create tokens for others; you are {by.user}")
    if not by.scope.covers(new.scope):
        raise NotAllowed(f"your token has the scope {by.scope}, so it cannot create one with the scope {new.scope}")
    if most_per_s is not None and (new.rate_limit_per_s or 0) > most_per_s:
        raise NotAllowed(
            f"your token may send {most_per_s:g} requests a second, so it cannot create one with a higher limit"
        )
    now = session.execute(select(func.now())).scalar_one()
    expires_at = by.expires_at if new.expires_in_s is None else now + timedelta(seconds=new.expires_in_s)
    if by.expires_at is not None and expires_at is not None and expires_at > by.expires_at:
        raise NotAllowed(
            f"your token expires at {by.expires_at.isoformat()}, so it cannot create one that expires later"
        )
    add_user(session, user)
    if _lock_user(session, user).disabled_at is not None:
        raise UserDisabled(user)
    if _count_tokens(session, user, *_LIVE) >= MOST_TOKENS:
        raise TooManyTokens(f"{user} has {MOST_TOKENS} valid tokens, the most allowed: revoke one first")
    is_by_admin = by.scope is Scope.ADMIN  # admins help a user whose stolen token made all of a day
    if not is_by_admin and _count_tokens(session, user, Token.kind == "bearer", _OF_LAST_DAY) >= MOST_NEW_TOKENS:
        raise TooManyTokens(f"{MOST_NEW_TOKENS} tokens of {user} were made within a day, the most allowed")
    text = new_token()
    token_id = store_token(
        session, text, user=user, scope=new.scope, name=new.name, expires_at=expires_at, created_by=by.token_id,
        rate_limit_per_s=new.rate_limit_per_s or by.rate_limit_per_s,
    )  # fmt: skip
    return text, get_token(session, token_id)


def make_login_link(session: Session, by: Bearer) -> tuple[str, datetime]:
    """Create a link that signs `by` in to the page once. Returns its code and its expiry.

    Raises `NotAllowed`, `TooManyLogins`.
    """
    if by.kind != "bearer":
        raise NotAllowed("a session cannot create a login link: use a token")
    _lock_user(session, by.user)
    _remove_oldest_links(session, by.user)
    if _count_tokens(session, by.user, Token.kind == "login", _OF_LAST_DAY) >= MOST_LOGINS:
        raise TooManyLogins(by.user)
    now = session.execute(select(func.now())).scalar_one()
    limits = (now + timedelta(seconds=LOGIN_S), by.expires_at)
    text, expires_at = new_token(), min(limit for limit in limits if limit is not None)
    store_token(
        session, text, user=by.user, scope=by.scope, name="login link", kind="login", expires_at=expires_at,
        rate_limit_per_s=by.rate_limit_per_s, created_by=by.token_id,
    )  # fmt: skip
    return text, expires_at


def _lock_user(session: Session, name: str) -> User:
    """The user's row, locked: what is counted stays right until the commit."""
    query = select(User).where(User.name == name).with_for_update()
    return session.execute(query, execution_options={"populate_existing": True}).scalar_one()


def _count_tokens(session: Session, user: str, *conditions: ColumnElement[bool]) -> int:
    return session.execute(select(func.count()).where(Token.user_name == user, *conditions)).scalar_one()


def _remove_oldest_links(session: Session, user: str) -> None:
    """Make room for one more open link. Links that were used stay: their sessions end with their token."""
    unused = select(Token.sha256).where(Token.user_name == user, Token.kind == "login", Token.last_used_at.is_(None))
    oldest = unused.order_by(Token.created_at.desc()).offset(MOST_OPEN_LINKS - 1)
    session.execute(delete(Token).where(Token.sha256.in_(oldest)), execution_options={"synchronize_session": False})


def revoke(session: Session, token: Token) -> list[str]:
    """Revoke a token and its sessions; returns the ids of all that ended. Raises `LastAdmin`."""
    _take_turn(session)
    ended = revoke_with_sessions(session, token.id)
    if ended and token.scope == Scope.ADMIN:
        _require_an_admin(session)
    return ended


def set_disabled(session: Session, name: str, *, disabled: bool) -> UserLine:
    """Disable or enable a user. Repeating it changes nothing. Raises `UserNotFound`, `LastAdmin`."""
    _take_turn(session)
    at = func.coalesce(User.disabled_at, func.now()) if disabled else None
    if session.scalar(update(User).where(User.name == name).values(disabled_at=at).returning(User.name)) is None:
        raise UserNotFound(name)
    if disabled:
        _require_an_admin(session)
    return _user_lines(session, [name])[0]


def list_users(session: Session, *, limit: int = 50, cursor: str | None = None) -> Page[UserLine]:
    """A page of users by name. Raises `InvalidCursor`."""
    query = select(User.name).order_by(User.name).limit(limit + 1)
    if cursor is not None:
        query = query.where(User.name > cursors.decode(session, cursor, by=BY_NAME, of=_USERS)[0])
    names = session.scalars(query).all()
    page = page_of(session, names, by=BY_NAME, limit=limit, of=_USERS, position=lambda name: (name,))
    return Page(_user_lines(session, page.items), page.next_cursor)


def projects_of(session: Session, user: str) -> Sequence[str]:
    """The projects of which a user is a member, by name."""
    query = select(ProjectMember.project).where(ProjectMember.user_name == user).order_by(ProjectMember.project)
    return session.scalars(query).all()


def require_steering(session: Session, user: str, *, subject: str, owner: str, project: str) -> None:
    """Refuse users unless they own the `subject` or are members of its project. Raises `NotAllowed`."""
    if not may_steer(session, user, owner=owner, project=project):
        raise NotAllowed(
            f"{subject} belongs to {owner}, in the project {project}: "
            "only its owner, the project's members and admins may do this"
        )


def may_steer(session: Session, user: str, *, owner: str, project: str) -> bool:
    """Whether a user owns what `owner` has in a project, or is a member of that project."""
    membership = exists().where(ProjectMember.project == project, ProjectMember.user_name == user)
    return user == owner or bool(session.scalar(select(membership)))


def _user_lines(session: Session, names: Sequence[str]) -> list[UserLine]:
    width = case({scope.value: position for position, scope in enumerate(Scope)}, value=Token.scope)
    rows = session.execute(
        select(
            User.name, User.created_at, User.disabled_at, func.count(Token.id), func.max(width),
            func.max(Token.last_used_at),
        )
        .outerjoin(Token, (Token.user_name == User.name) & _LIVE[0] & _LIVE[1] & _LIVE[2])
        .where(User.name.in_(names))
        .group_by(User.name)
        .order_by(User.name)
    )  # fmt: skip
    scopes = list(Scope)
    return [
        UserLine(name, created_at, disabled_at, tokens, None if widest is None else scopes[widest], last_used_at)
        for name, created_at, disabled_at, tokens, widest, last_used_at in rows
    ]


def _take_turn(session: Session) -> None:
    """Wait for others who disable or revoke. If two admins disable each other, the second must see the first."""
    session.execute(select(func.pg_advisory_xact_lock(_ADMINS)))


def _require_an_admin(session: Session) -> None:
    admin = exists().where(Token.scope == Scope.ADMIN, User.name == Token.user_name, User.disabled_at.is_(None), *_LIVE)
    if not session.scalar(select(admin)):
        raise LastAdmin


_OF_LAST_DAY = Token.created_at > func.now() - timedelta(days=1)
_LIVE = (
    Token.kind == "bearer",
    Token.revoked_at.is_(None),
    or_(Token.expires_at.is_(None), Token.expires_at > func.now()),
)
