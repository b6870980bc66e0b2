"""Searches for a text without an index: in log lines (`jobs.lifecycle.history`) and in jobs (`jobs.lifecycle.listing`).

Such a search reads one row after the other, so it has a time limit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement, func
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.engine import is_out_of_time, limit_statements

SEARCH_LIMIT_S = 5.0
_ESCAPE = "\\"


class TooMuchToSearch(RuntimeError):
    """The search did not end in time: there are too many rows. `field` is the one to blame."""

    def __init__(self, field: str = "search") -> None:
        what = "the search" if field == "search" else "this"
        super().__init__(f"{what} took longer than {SEARCH_LIMIT_S:g} s: there are too many rows")
        self.field = field


def contains(column: InstrumentedAttribute[str], text: str, *, lowered: bool = True) -> ColumnElement[bool]:
    """Whether a column contains a text, in upper or lower case. The text has no wildcards.

    `lowered`: the column is already in lower case, made by the database's `lower`.
    """
    return (column if lowered else func.lower(column)).contains(func.lower(_literally(text)), escape=_ESCAPE)


def _literally(text: str) -> str:
    return "".join(_ESCAPE + sign if sign in {_ESCAPE, "%", "_"} else sign for sign in text)


@contextmanager
def limited_search(session: Session, search: object, *, field: str = "search") -> Iterator[None]:
    """Limit the time of each statement from now on, if there is something to search. Raises `TooMuchToSearch`.

    Each statement is planned for its own text: the best plan for a frequent text is a bad one for a rare text.
    """
    if not search:
        yield
        return
    limit_statements(session, SEARCH_LIMIT_S)
    session.execute(sql("SET LOCAL plan_cache_mode = force_custom_plan"))
    try:
        yield
    except DBAPIError as error:
        if is_out_of_time(error):
            raise TooMuchToSearch(field) from error
        raise
