"""Rows as they come from the database, in its own binary form. Used by what reads series.

Past SQLAlchemy, like `jobs.telemetry.ingest`: a long series would take several times the time and memory in text, or
all at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import pq
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

_AT_ONCE = 64 if pq.version() >= 170000 else 1  # rows; the older library knows no other way


def streamed(session: Session, query: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, in the session's transaction. Nothing else can be asked before the last one is taken."""
    connection: psycopg.Connection = session.connection().connection.driver_connection  # type: ignore[assignment]
    with connection.cursor() as cursor:
        try:
            yield from cursor.stream(query.encode(), values, binary=True, size=_AT_ONCE)
        except psycopg.OperationalError as error:  # callers know a database that is away by SQLAlchemy's name for it
            raise OperationalError(query, None, error) from error
