"""What users may do now. Whoever may not do a thing now may not do it by what they began.

A right is checked when a request comes in. But what the request began goes on later, without the user: a queued job is
placed, a webhook sends. So whoever carries it on asks here again, at the moment of the act and in its transaction:

    dispatcher, `jobs.scheduling.queue`     a queued job is placed      `may_train`, `obstacle_to_training`
    api (`jobs.people.project_admission`)   a job or study is resumed   `why_not_train`
    searcher (`jobs.insight.studies`)       a trial begins              `why_not_train`, `is_admin`
    notifier (`jobs.outward.webhooks`)      a webhook sends a message   `why_no_messages`

What is not here needs no second look. A live stream, a session and a login link end with their token. A piece of an
upload is a request of its own. A running job goes on until it gives its slots back.

It is below `jobs.people`, because the dispatcher asks too. Every condition is SQL over whole tables, not a look-up for
each row, so that a long queue stays fast.
"""

from typing import Any

from sqlalchemy import ColumnElement, ColumnExpressionArgument, Select, and_, case, func, literal, null, or_, select
from sqlalchemy import tuple_ as sql_tuple
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.tables import Project, ProjectMember, Token, User
from jobs.model.scopes import Scope

Name = InstrumentedAttribute[str] | ColumnElement[str]  # of a user or a project: a column, or a value as SQL

_DISABLED_USERS = select(User.name).where(User.disabled_at.is_not(None))
_CLOSED_PROJECTS = select(Project.name).where(~Project.is_open)
_MEMBERS = select(ProjectMember.project, ProjectMember.user_name)


def obstacle_to_training(owner: Name, project: Name) -> ColumnElement[str | None]:
    """Why no job of `owner` may start in `project`, as SQL: null if it may."""
    return case(
        (owner.in_(_DISABLED_USERS), func.concat("its owner ", owner, " is disabled")),
        (
            and_(project.in_(_CLOSED_PROJECTS), _is_stranger(owner, project)),
            func.concat("the project ", project, " is closed, and its owner ", owner, " is no member"),
        ),
        else_=null(),
    )


def may_train(owner: Name, project: Name) -> ColumnElement[bool]:
    """Whether jobs of `owner` may start in `project`, as SQL.

    Not `obstacle_to_training() IS NULL`: the database would expect that of few jobs, and read the whole queue.
    """
    return and_(owner.not_in(_DISABLED_USERS), or_(project.not_in(_CLOSED_PROJECTS), ~_is_stranger(owner, project)))


def why_not_train(session: Session, *, owner: str, project: str) -> str | None:
    """Why no job of `owner` may start in `project`: a clause without its full stop. None if it may."""
    return _text(session, obstacle_to_training(literal(owner), literal(project)))


def is_admin(session: Session, user: str) -> bool:
    """Whether a user is an admin: has a valid token of that scope."""
    return bool(session.scalar(select(literal(user).in_(_users_with(Scope.ADMIN)))))


def why_no_messages(session: Session, *, owner: str, project: str | None) -> str | None:
    """Why a webhook of `owner` gets no messages: a clause without its full stop. None if it gets them.

    They need what is needed to add the webhook: the scope submit, and to be a member of the project or an admin.
    """
    user = literal(owner)
    obstacles: list[tuple[ColumnExpressionArgument[bool], ColumnElement[str]]] = [
        (user.in_(_DISABLED_USERS), func.concat("its owner ", user, " is disabled")),
        (
            user.not_in(_users_with(Scope.SUBMIT)),
            func.concat("its owner ", user, " has no valid token with the scope submit"),
        ),
    ]
    if project is not None:
        shut_out = func.concat("its owner ", user, " is no member of the project ", literal(project))
        obstacles.append((_is_stranger(user, literal(project)), shut_out))
    return _text(session, case(*obstacles, else_=null()))


def _is_stranger(user: Name, project: Name) -> ColumnElement[bool]:
    """Whether a user is neither a member of the project nor an admin."""
    return and_(sql_tuple(project, user).not_in(_MEMBERS), user.not_in(_users_with(Scope.ADMIN)))


def _users_with(scope: Scope) -> Select[Any]:
    """The users with a valid token of at least this scope. Sessions do not count: they end with their tokens."""
    wide_enough = [wider for wider in Scope if wider.covers(scope)]
    is_valid = and_(Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), Token.expires_at > func.now()))
    return select(Token.user_name).where(Token.kind == "bearer", Token.scope.in_(wide_enough), is_valid)


def _text(session: Session, expression: ColumnElement[Any]) -> str | None:
    text: str | None = session.scalar(select(expression))
    return text
