"""Writes of tests, each in a transaction of its own."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Executable

from jobs.db.engine import Sessions

T = TypeVar("T")


def write(sessions: Sessions, what: Callable[..., T], *arguments: Any, **values: Any) -> T:
    """Call a function of the service that takes a session."""
    with sessions.begin() as session:
        return what(session, *arguments, **values)


def change(sessions: Sessions, statement: Executable) -> None:
    """Change rows."""
    with sessions.begin() as session:
        session.execute(statement)
