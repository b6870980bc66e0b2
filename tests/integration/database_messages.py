"""How often a process waits for the database, by the trace of the database's own library."""

from collections.abc import Callable
from pathlib import Path

from psycopg.pq import Trace
from sqlalchemy import Engine


def waits(engine: Engine, folder: Path, call: Callable[[], object]) -> int:
    """How often `call` waits for an answer of the database, on the only connection of an engine."""
    with engine.connect() as connection:
        pgconn = connection.connection.driver_connection.pgconn  # type: ignore[union-attr]
    with (folder / "trace").open("wb") as file:
        pgconn.trace(file.fileno())
        pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        call()
        pgconn.untrace()
    messages = [line.split("\t") for line in (folder / "trace").read_text("utf-8", "replace").splitlines()]
    return sum(message[2] in ("ReadyForQuery", "CopyInResponse") for message in messages if len(message) > 2)
