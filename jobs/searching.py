"""Looking for a text where no index helps: in lines (`jobs.history`) and in jobs (`jobs.listing`).

Such a look reads one row after the other, so it is given up when it takes too long.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.database import is_out_of_time, limit_statements

PATIENCE_S = 5.0


class TooMuchToSearch(RuntimeError):
    """There are too many rows to look through."""


def has_text(column: InstrumentedAttribute[str] | ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Whether a column contains a text, whatever the case; no sign in it stands for others."""
    return column.icontains(text, autoescape=True)


@contextmanager
def patiently(session: Session, search: str | None) -> Iterator[None]:
    """Let no statement from now on take long, if one looks for a text. Raises `TooMuchToSearch` for one that does."""
    if search is None:
        yield
        return
    limit_statements(session, PATIENCE_S)
    try:
        yield
    except DBAPIError as error:
        if is_out_of_time(error):
            raise TooMuchToSearch(f"there is more to look through than can be in {PATIENCE_S:g} s") from error
        raise
