"""Looking for a text where no index helps: in lines (`jobs.lifecycle.history`) and in jobs (`jobs.lifecycle.listing`).

Such a look reads one row after the other, so it is given up when it takes too long.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement, func
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.engine import is_out_of_time, limit_statements

PATIENCE_S = 5.0
_ESCAPE = "\\"


class TooMuchToSearch(RuntimeError):
    """There are too many rows to look through."""


def contains(column: InstrumentedAttribute[str], text: str, *, lowered: bool = True) -> ColumnElement[bool]:
    """Whether a column contains a text, whatever the case; no sign in it stands for others.

    What is `lowered` is in lower case already, as the database's own `lower` makes it.
    """
    return (column if lowered else func.lower(column)).contains(func.lower(_literally(text)), escape=_ESCAPE)


def _literally(text: str) -> str:
    return "".join(_ESCAPE + sign if sign in {_ESCAPE, "%", "_"} else sign for sign in text)


@contextmanager
def patiently(session: Session, search: str | None) -> Iterator[None]:
    """Let no statement from now on take long, if one looks for a text. Raises `TooMuchToSearch` for one that does.

    Each is planned for its own text: how to look for one that many have is no way to look for one that nobody has.
    """
    if search is None:
        yield
        return
    limit_statements(session, PATIENCE_S)
    session.execute(sql("SET LOCAL plan_cache_mode = force_custom_plan"))
    try:
        yield
    except DBAPIError as error:
        if is_out_of_time(error):
            raise TooMuchToSearch(f"there is more to look through than can be in {PATIENCE_S:g} s") from error
        raise
