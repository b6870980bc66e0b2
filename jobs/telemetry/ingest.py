"""Writes metrics, logs, samples and events, by COPY. `jobs.telemetry.series` and `samples` read them.

Called by the supervisor's intake and the host's sampler, in their fenced transactions.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, sql
from psycopg.types.json import Jsonb
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.model.states import EventKind
from jobs.telemetry.blocks import BlockRow, Point, blocks_and_points, merge_into_blocks
from jobs.telemetry.sampled_metrics import HOST_METRICS, SLOT_METRICS, SampledMetric

ALL_RANKS = -1  # the rank of a value over all ranks, of which there is one an epoch
# Each rank writes these once an epoch.
RANK_EPOCH_METRICS = ("step_time_p50_s", "step_time_p95_s", "epoch_data_wait_s", "epoch_allreduce_s")
_FEW = 10  # so many rows are inserted: beginning and ending a COPY takes longer
LAUNCHER = -1  # the rank of a line that the launcher printed


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
    """A row of samples. `values` are those of `SLOT_METRICS`, by name; a metric that is left out is null."""

    job_id: str
    attempt: int
    rank: int
    at: datetime
    host: str
    slot: int
    step: int | None
    epoch: int | None
    values: Mapping[str, float | None]


class HostSampleRow(NamedTuple):
    """A row of host_samples. `values` are those of `HOST_METRICS`, by name; a metric that is left out is null."""

    host: str
    at: datetime
    values: Mapping[str, float | None]


class EventRow(NamedTuple):
    """A row of job_events, without the id that the database gives."""

    job_id: str
    at: datetime
    kind: str
    attempt: int
    data: Jsonb


def event_row(job_id: str, kind: EventKind, *, at: datetime, attempt: int, data: dict[str, Any]) -> EventRow:
    """A row as `jobs.lifecycle.store.add_event` writes it."""
    return EventRow(job_id, at, kind.value, attempt, Jsonb(storable(data)))


def store_events(session: Session, rows: Sequence[EventRow]) -> None:
    """Append events to the histories of jobs, in sequence."""
    _copy(session, "job_events", EventRow._fields, rows)


def store_metrics(session: Session, rows: Sequence[MetricRow]) -> None:
    """Store metric points. A point that is stored already stays as it is. Series of every step become blocks."""
    each_step: list[MetricRow] = []
    one_an_epoch: list[MetricRow] = []
    for row in rows:
        (one_an_epoch if is_one_an_epoch(row.name, row.rank) else each_step).append(row)
    blocks, others = blocks_and_points(each_step)
    _copy(session, "metric_blocks", BlockRow._fields, blocks)
    store_points(session, [*one_an_epoch, *others])
    merge_into_blocks(session, each_step)


def is_one_an_epoch(name: str, rank: int) -> bool:
    """Whether a series has one point an epoch rather than one a step."""
    return rank == ALL_RANKS or name in RANK_EPOCH_METRICS


def store_points(session: Session, rows: Sequence[Point]) -> None:
    """Store metric points as rows."""
    _copy(session, "metric_points", MetricRow._fields, rows)


def store_logs(session: Session, rows: Sequence[LogRow]) -> None:
    """Store log lines, in sequence."""
    _copy(session, "log_lines", LogRow._fields, rows)


def store_samples(session: Session, rows: Sequence[SampleRow]) -> None:
    """Store samples of slots. A sample that is stored already stays as it is."""
    columns = (*SampleRow._fields[:-1], *SLOT_METRICS)
    _copy(session, "samples", columns, [(*row[:-1], *_in_columns(row.values, SLOT_METRICS)) for row in rows])


def store_host_samples(session: Session, rows: Sequence[HostSampleRow]) -> None:
    """Store samples of hosts. A sample that is stored already stays as it is."""
    columns = (*HostSampleRow._fields[:-1], *HOST_METRICS)
    _copy(session, "host_samples", columns, [(*row[:-1], *_in_columns(row.values, HOST_METRICS)) for row in rows])


def _in_columns(values: Mapping[str, float | None], metrics: Mapping[str, SampledMetric]) -> Iterator[float | None]:
    if not values.keys() <= metrics.keys():
        raise ValueError(f"no such sampled metric: {', '.join(sorted(values.keys() - metrics.keys()))}")
    return (values.get(name) for name in metrics)


def _copy(session: Session, table: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    copying, inserting = _statements(table, columns)
    connection: psycopg.Connection = session.connection().connection.driver_connection  # type: ignore[assignment]
    with connection.cursor() as cursor:
        try:
            if len(rows) <= _FEW:
                cursor.executemany(inserting, rows)
                return
            # Psycopg's own `transaction()` would commit if this is the transaction's first statement.
            cursor.execute(b"SAVEPOINT copied")
            try:
                with cursor.copy(copying) as copy:
                    for row in rows:
                        copy.write_row(row)
            except errors.UniqueViolation:
                # COPY cannot skip a row that exists. This path is for the rare batch that has one.
                cursor.execute(b"ROLLBACK TO SAVEPOINT copied")
                cursor.executemany(inserting, rows)
            cursor.execute(b"RELEASE SAVEPOINT copied")
        except psycopg.OperationalError as error:  # callers catch SQLAlchemy's error when the database is away
            raise OperationalError(f"COPY {table}", None, error) from error


@cache
def _statements(table: str, columns: tuple[str, ...]) -> tuple[bytes, bytes]:
    """The statements that copy rows into a table, and that insert one unless it exists."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    places = sql.SQL(", ").join(sql.Placeholder() * len(columns))
    into = {"table": sql.Identifier(table), "names": names, "places": places}
    copying = sql.SQL("COPY {table} ({names}) FROM STDIN").format(**into)
    inserting = sql.SQL("INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT DO NOTHING").format(**into)
    return copying.as_bytes(), inserting.as_bytes()
