"""Stream the rows of a query in the database's binary form. Used by the modules that read series.

It does not use SQLAlchemy, and neither does `jobs.telemetry.ingest`: a long series read as text, or all at once, would
take several times the time and memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import pq
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

_ROWS_AT_ONCE = 64 if pq.version() >= 170000 else 1  # the older library can only stream single rows


def streamed(session: Session, query: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, in the session's transaction. It can run nothing else before the last row is read."""
    connection: psycopg.Connection = session.connection().connection.driver_connection  # type: ignore[assignment]
    with connection.cursor() as cursor:
        try:
            yield from cursor.stream(query.encode(), values, binary=True, size=_ROWS_AT_ONCE)
        except psycopg.OperationalError as error:  # callers catch SQLAlchemy's error for a database that is away
            raise OperationalError(query, None, error) from error
