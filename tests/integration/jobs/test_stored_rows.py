"""Metrics, logs and samples come by COPY, or a few by INSERT: once each, in the caller's transaction.

COPY leaves exactly the rows that inserting them one by one leaves.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, inspect, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Base, HostSample, LogLine, MetricBlock, MetricPoint, Sample
from jobs.telemetry import ingest
from jobs.telemetry.blocks import BLOCK, blocks_and_points, by_series, merge_into_blocks
from jobs.telemetry.ingest import (
    ALL_RANKS,
    HostSampleRow,
    LogRow,
    MetricRow,
    SampleRow,
    is_one_an_epoch,
    store_host_samples,
    store_logs,
    store_metrics,
    store_points,
    store_samples,
)
from jobs.telemetry.sampled_metrics import HOST_METRICS, SLOT_METRICS, SampledMetric
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write

_SETTINGS = settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # to shorten an example takes minutes
    suppress_health_check=list(HealthCheck),
)
_REALS = [0.0, -0.0, 1 / 3, -1e308, 1.7976931348623157e308, 5e-324, -2.2250738585072014e-308, 1e23, 123456789.123456789]
_FLOATS = st.one_of(st.sampled_from([*_REALS, math.nan, math.inf, -math.inf]), st.floats())
_STEPS = st.one_of(st.integers(0, 40), st.integers(BLOCK - 12, BLOCK + 12), st.integers(2 * BLOCK - 3, 2 * BLOCK + 3))
_NAMES = st.sampled_from(["loss", "step_time_s", "epoch_data_wait_s", 'o"d\\d, {name}', "NULL", " grün\u2028 "])
_RANKS = st.sampled_from([ALL_RANKS, 0, 1, 511, 2**31 - 1])


@st.composite
def _points(draw: st.DrawFn) -> list[MetricRow]:
    """Some points of one series, mostly of steps that follow each other."""
    first, count, name, rank = draw(_STEPS), draw(st.integers(1, 12)), draw(_NAMES), draw(_RANKS)
    steps = draw(st.one_of(st.just(range(first, first + count)), st.lists(_STEPS, min_size=1, max_size=12)))
    attempt = draw(st.sampled_from([1, 1, 1, 2]))
    return [MetricRow("", name, rank, step, attempt, step // 7, seconds(step / 7), draw(_FLOATS)) for step in steps]


@st.composite
def _batches(draw: st.DrawFn) -> list[list[MetricRow]]:
    """Batches of points of many series. Some batches come twice, alone or with other points."""
    batches: list[list[MetricRow]] = []
    for _ in range(draw(st.integers(1, 5))):
        rows = [row for rows in draw(st.lists(_points(), min_size=1, max_size=30)) for row in rows]
        again = draw(st.sampled_from([[], *batches]))
        batches.append(draw(st.sampled_from([rows, [*rows, *again], [*again, *rows], again or rows])))
    return batches


def _values_of(metrics: Mapping[str, SampledMetric]) -> st.SearchStrategy[dict[str, float | None]]:
    """Some of these metrics: unknown, or a number of the kind that the column takes."""
    longs, numbers = st.integers(0, 2**63 - 1), _FLOATS | st.integers(0, 100)
    of_unit = {"bytes": longs, "bits": longs, "processes": st.integers(0, 2**31 - 1)}
    fields = {name: st.none() | of_unit.get(metric.unit, numbers) for name, metric in metrics.items()}
    return st.fixed_dictionaries({}, optional=fields)


_SAMPLES = st.lists(
    st.builds(
        SampleRow, st.just(""), st.sampled_from([1, 2]), st.integers(0, 9), st.integers(0, 9).map(seconds),
        st.sampled_from(["ha", "o\td\\d"]), st.integers(0, 2**31 - 1), st.none() | st.integers(0, 2**63 - 1),
        st.none() | st.integers(0, 2**31 - 1), _values_of(SLOT_METRICS),
    ),
    max_size=40,
)  # fmt: skip
_HOST_SAMPLES = st.lists(
    st.builds(HostSampleRow, st.just(""), st.integers(0, 9).map(seconds), _values_of(HOST_METRICS)), max_size=40
)


@pytest.fixture(autouse=True, params=[0, 1, 10**6], ids=["copied", "as they are stored", "inserted"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_FEW", request.param)


def test_points_fill_the_tables_as_if_they_came_one_by_one(sessions: Sessions) -> None:
    numbers = count()

    @_SETTINGS
    @given(_batches())
    def check(batches: list[list[MetricRow]]) -> None:
        copied, single = f"c{next(numbers)}", f"s{next(numbers)}"
        for batch in batches:
            with sessions.begin() as session:
                store_metrics(session, [row._replace(job_id=copied) for row in batch])
                _store_singly(session, [row._replace(job_id=single) for row in batch])
        with sessions() as session:
            assert _rows(session, MetricPoint, job_id=copied) == _rows(session, MetricPoint, job_id=single)
            assert _blocks(session, copied) == _blocks(session, single)

    check()


def test_samples_fill_the_tables_as_if_they_came_one_by_one(sessions: Sessions) -> None:
    numbers = count()

    @_SETTINGS
    @given(st.lists(st.tuples(_SAMPLES, _HOST_SAMPLES), max_size=3))
    def check(batches: list[tuple[list[SampleRow], list[HostSampleRow]]]) -> None:
        copied, single = f"c{next(numbers)}", f"s{next(numbers)}"
        for slots, hosts in batches:
            with sessions.begin() as session:
                store_samples(session, [row._replace(job_id=copied) for row in slots])
                store_host_samples(session, [row._replace(host=copied) for row in hosts])
                for row in slots:
                    _insert(session, Sample, {**row._asdict(), **row.values, "job_id": single})
                for of_host in hosts:
                    _insert(session, HostSample, {**of_host._asdict(), **of_host.values, "host": single})
        with sessions() as session:
            assert _rows(session, Sample, job_id=copied) == _rows(session, Sample, job_id=single)
            assert _rows(session, HostSample, host=copied) == _rows(session, HostSample, host=single)

    check()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": 2**31},
        {"rank": -(2**31) - 1},
        {"attempt": 2**40},
        {"step": 2**63},
        {"value": [1.0]},
        {"name": "n" * 65},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_value_that_cannot_be_stored_fails_its_batch_and_the_connection_stays(
    sessions: Sessions, wrong: dict[str, Any]
) -> None:
    rows = [MetricRow("j", "loss", 0, step, 1, 1, seconds(step), 1.0) for step in (1, 2)]
    with pytest.raises((TypeError, psycopg.Error)), sessions.begin() as session:
        store_points(session, [*rows, rows[0]._replace(**wrong)])
    write(sessions, store_points, rows)  # on the same connection
    with sessions() as session:
        assert len(_rows(session, MetricPoint, job_id="j")) == 2


def _store_singly(session: Session, rows: Sequence[MetricRow]) -> None:
    each_step = by_series(row for row in rows if not is_one_an_epoch(row.name, row.rank))
    blocks, others = blocks_and_points(each_step)
    for block in blocks:
        session.execute(insert(MetricBlock).values(block._asdict()))
    for point in [row for row in rows if is_one_an_epoch(row.name, row.rank)] + others:
        _insert(session, MetricPoint, MetricRow(*point)._asdict())
    merge_into_blocks(session, each_step)


def _insert(session: Session, model: type[Base], row: dict[str, Any]) -> None:
    row.pop("values", None)
    session.execute(postgresql.insert(model).values(row).on_conflict_do_nothing())


def _rows(session: Session, model: type[Base], **owner: str) -> list[str]:
    """All rows of an owner, without its name. NaN equals NaN here, and -0 does not equal 0."""
    columns = [column for column in inspect(model).columns if column.name not in owner]
    return sorted(repr(tuple(row)) for row in session.execute(select(*columns).filter_by(**owner)))


def _blocks(session: Session, job_id: str) -> list[Any]:
    """All blocks of a job. Points of equal steps may change places within a block."""
    return sorted(
        (
            *(block.name, block.rank, block.attempt, block.first_step, block.last_step, block.steps is None),
            *(_pieces(block.steps or b"", 8), _pieces(block.epochs, 4)),
            *(_pieces(block.times, 8), _pieces(block.numbers, 8)),
        )
        for block in session.scalars(select(MetricBlock).where(MetricBlock.job_id == job_id))
    )


def _pieces(data: bytes, size: int) -> list[bytes]:
    return sorted(data[at : at + size] for at in range(0, len(data), size))


AT = datetime(2030, 1, 1, tzinfo=UTC)
ODD = ["", " ", "tab\tand \\ and \\N", "\\.", "'; DROP TABLE jobs; --", "grün 😀 \u2028", '"quoted"', "\r", "x" * 16384]


def point(step: int, value: float = 1.0, *, name: str = "loss") -> MetricRow:
    return MetricRow("j", name, 0, step, 1, 1, AT, value)


def points(sessions: Sessions) -> list[tuple[int, float]]:
    with sessions() as session:
        return [
            (row.step, row.value)
            for row in session.execute(select(MetricPoint.step, MetricPoint.value).order_by(MetricPoint.step))
        ]


def test_log_lines_are_stored_unchanged_and_in_order(sessions: Sessions) -> None:
    write(sessions, store_logs, [LogRow("j", 1, 0, AT, line) for line in ODD])
    with sessions() as session:
        assert list(session.scalars(select(LogLine.text).order_by(LogLine.id))) == ODD


@pytest.mark.parametrize("first", [True, False], ids=["first-in-transaction", "after-another"])
@pytest.mark.parametrize("doubled", [True, False], ids=["with-a-duplicate", "plain"])
def test_a_rollback_by_the_caller_removes_the_rows(sessions: Sessions, first: bool, doubled: bool) -> None:
    with sessions() as session:
        if not first:
            session.execute(text("SELECT 1"))
        store_metrics(session, [point(1), point(1 if doubled else 2)])
        session.rollback()
    assert points(sessions) == []


def test_a_lock_timeout_raises_operational_error(sessions: Sessions) -> None:
    with sessions() as session, sessions.begin() as other:
        other.execute(text("LOCK TABLE metric_points"))
        session.execute(text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(OperationalError):
            store_metrics(session, [point(1)])


def test_a_lost_connection_raises_operational_error(sessions: Sessions) -> None:

    def cut_off() -> None:
        with sessions.begin() as session:
            own = session.scalar(text("SELECT pg_backend_pid()"))
            with sessions.begin() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": own})
            store_metrics(session, [point(1)])

    with pytest.raises(OperationalError):
        cut_off()
    write(sessions, store_metrics, [point(2)])  # the next one takes a new connection
    assert points(sessions) == [(2, 1.0)]
    assert job_rows.count(sessions, MetricPoint) == 1
