"""Writes metrics, logs, samples and events, by COPY. `jobs.telemetry.series` and `samples` read them.

Called by the supervisor's intake and the host's sampler, in their fenced transactions.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, sql
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.types.json import Jsonb
from sqlalchemy import Column, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import Base, HostSample, JobEvent, LogLine, MetricBlock, MetricPoint, Sample
from jobs.model.log_levels import LogLevel
from jobs.model.states import EventKind
from jobs.telemetry.blocks import BlockRow, Point, blocks_and_points, by_series, merge_into_blocks
from jobs.telemetry.sampled_metrics import HOST_METRICS, SLOT_METRICS, SampledMetric

ALL_RANKS = -1  # the rank of a value over all ranks, of which there is one an epoch
# Each rank writes these once an epoch.
RANK_EPOCH_METRICS = ("step_time_p50_s", "step_time_p95_s", "epoch_data_wait_s", "epoch_allreduce_s")
_FEW = 1  # so many rows are inserted: one message to the database, where a COPY takes two
LAUNCHER = -1  # the rank of a line that the launcher printed
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
_BITS = {psycopg.adapters.types["int4"].oid: 31, psycopg.adapters.types["int8"].oid: 63}  # besides the sign


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
    level: int = LogLevel.INFO.number


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
    _copy(session, JobEvent, EventRow._fields, rows)


def store_metrics(session: Session, rows: Sequence[MetricRow]) -> None:
    """Store metric points. A point that is stored already stays as it is. Series of every step become blocks."""
    each_step, one_an_epoch = by_series(rows), list[Point]()
    for series in [series for series in each_step if is_one_an_epoch(series[1], series[2])]:
        one_an_epoch += each_step.pop(series)
    blocks, others = blocks_and_points(each_step)
    _copy(session, MetricBlock, BlockRow._fields, blocks)
    store_points(session, [*one_an_epoch, *others])
    merge_into_blocks(session, each_step)


def is_one_an_epoch(name: str, rank: int) -> bool:
    """Whether a series has one point an epoch rather than one a step."""
    return rank == ALL_RANKS or name in RANK_EPOCH_METRICS


def store_points(session: Session, rows: Sequence[Point]) -> None:
    """Store metric points as rows."""
    _copy(session, MetricPoint, MetricRow._fields, rows)


def store_logs(session: Session, rows: Sequence[LogRow]) -> None:
    """Store log lines, in sequence."""
    _copy(session, LogLine, LogRow._fields, rows)


def store_samples(session: Session, rows: Sequence[SampleRow]) -> None:
    """Store samples of slots. A sample that is stored already stays as it is."""
    columns = (*SampleRow._fields[:-1], *SLOT_METRICS)
    _copy(session, Sample, columns, [(*row[:-1], *_in_columns(row.values, SLOT_METRICS)) for row in rows])


def store_host_samples(session: Session, rows: Sequence[HostSampleRow]) -> None:
    """Store samples of hosts. A sample that is stored already stays as it is."""
    columns = (*HostSampleRow._fields[:-1], *HOST_METRICS)
    _copy(session, HostSample, columns, [(*row[:-1], *_in_columns(row.values, HOST_METRICS)) for row in rows])


def _in_columns(values: Mapping[str, float | None], metrics: Mapping[str, SampledMetric]) -> Iterator[float | None]:
    if not values.keys() <= metrics.keys():
        raise ValueError(f"no such sampled metric: {', '.join(sorted(values.keys() - metrics.keys()))}")
    return (values.get(name) for name in metrics)


def _copy(session: Session, model: type[Base], columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    statements = _statements(model, columns)
    connection: psycopg.Connection = session.connection().connection.driver_connection  # type: ignore[assignment]
    with connection.cursor() as cursor:
        try:
            if len(rows) <= _FEW:
                cursor.executemany(statements.inserting, rows)
                return
            _check_range(rows, statements.types)
            try:
                _begin_copy(connection, statements.copying)
                with psycopg.Copy(cursor, binary=True) as copy:
                    copy.set_types(statements.types)
                    for row in rows:
                        copy.write_row(row)
            except errors.UniqueViolation:
                if not statements.may_exist:
                    raise
                # COPY cannot skip a row that exists. This path is for the rare batch that has one.
                cursor.execute(b"ROLLBACK TO SAVEPOINT copied")
                cursor.executemany(statements.inserting, rows)
        except psycopg.OperationalError as error:  # callers catch SQLAlchemy's error when the database is away
            raise OperationalError(f"COPY {model.__tablename__}", None, error) from error


def _begin_copy(connection: psycopg.Connection, statements: bytes) -> None:
    """Send statements of which the last one is a COPY, in one message. Psycopg alone would wait after each."""
    if connection.info.transaction_status is TransactionStatus.IDLE:
        statements = b"BEGIN; " + statements
    connection.pgconn.send_query(statements)
    last = connection.wait(execute(connection.pgconn))[-1]
    if last.status != ExecStatus.COPY_IN:
        raise errors.error_from_result(last)


def _check_range(rows: Sequence[tuple[Any, ...]], types: Sequence[int]) -> None:
    """Refuse integers that are too long for their columns, as the database would. Psycopg would cut them off."""
    for column, oid in zip(zip(*rows, strict=True), types, strict=True):
        bits = _BITS.get(oid)
        if bits and (values := [*filter(None, column)]) and not -(1 << bits) <= min(values) <= max(values) < 1 << bits:
            raise errors.NumericValueOutOfRange("integer out of range")


class _Statements(NamedTuple):
    copying: bytes
    inserting: bytes  # of one row, unless it exists
    types: Sequence[int]  # of the columns: their oids
    may_exist: bool  # the rows come with their keys; else the database makes them


@cache
def _statements(model: type[Base], columns: tuple[str, ...]) -> _Statements:
    """The statements that write rows. Where rows may exist, a savepoint goes before COPY; the commit releases it."""
    table = inspect(model).columns
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    places = sql.SQL(", ").join(sql.Placeholder() * len(columns))
    into = {"table": sql.Identifier(model.__tablename__), "names": names, "places": places}
    copying = sql.SQL("COPY {table} ({names}) FROM STDIN (FORMAT BINARY)").format(**into).as_bytes()
    inserting = sql.SQL("INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT DO NOTHING").format(**into)
    may_exist = {column.name for column in table if column.primary_key} <= {*columns}
    return _Statements(
        copying=b"SAVEPOINT copied; " + copying if may_exist else copying,
        inserting=inserting.as_bytes(),
        types=[_oid(table[name]) for name in columns],
        may_exist=may_exist,
    )


def _oid(column: Column[Any]) -> int:
    name, *_ = column.type.compile(_POSTGRESQL).lower().split("(")
    return psycopg.adapters.types["float8" if name == "float" else name].oid
