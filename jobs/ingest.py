"""The writing side of the series: metrics, logs and samples, by COPY. The reading side is `jobs.series`.

Called by the supervisor's intake and the host's agent, in their fenced transactions.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import psycopg
from psycopg import errors, sql
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session


class MetricRow(NamedTuple):
    """A row of metric_points, in the order of its columns."""

    job_id: str
    name: str
    rank: int
    step: int
    attempt: int
    epoch: int
    at: datetime
    value: float


class LogRow(NamedTuple):
    """A row of log_lines, without the id that the database gives."""

    job_id: str
    attempt: int
    rank: int
    at: datetime
    text: str


class SampleRow(NamedTuple):
    """A row of samples, in the order of its columns."""

    job_id: str
    attempt: int
    rank: int
    at: datetime
    host: str
    slot: int
    step: int | None
    gpu_percent: float | None
    gpu_memory_bytes: int | None
    gpu_power_w: float | None
    gpu_temperature_c: float | None
    gpu_sm_clock_mhz: float | None
    cpu_percent: float | None
    memory_bytes: int | None


def store_metrics(session: Session, rows: Sequence[MetricRow]) -> None:
    """Store metric points; a point that is there already stays as it is."""
    _copy(session, "metric_points", MetricRow._fields, rows)


def store_logs(session: Session, rows: Sequence[LogRow]) -> None:
    """Store log lines, in order."""
    _copy(session, "log_lines", LogRow._fields, rows)


def store_samples(session: Session, rows: Sequence[SampleRow]) -> None:
    """Store samples; one that is there already stays as it is."""
    _copy(session, "samples", SampleRow._fields, rows)


def _copy(session: Session, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    connection: psycopg.Connection = session.connection().connection.driver_connection  # type: ignore[assignment]
    with connection.cursor() as cursor:
        try:
            # Psycopg's own `transaction()` would commit where nothing was asked of the database before.
            cursor.execute("SAVEPOINT copied")
            try:
                with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)) as copy:
                    for row in rows:
                        copy.write_row(row)
            except errors.UniqueViolation:
                # COPY cannot skip a row that is there already; this path is for the rare batch that has one.
                cursor.execute("ROLLBACK TO SAVEPOINT copied")
                places = sql.SQL(", ").join(sql.Placeholder() * len(columns))
                insert = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING")
                cursor.executemany(insert.format(sql.Identifier(table), names, places), rows)
            cursor.execute("RELEASE SAVEPOINT copied")
        except psycopg.OperationalError as error:  # callers know a database that is away by SQLAlchemy's name for it
            raise OperationalError(f"COPY {table}", None, error) from error
