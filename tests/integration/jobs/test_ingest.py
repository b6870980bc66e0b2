"""Metrics, logs and samples come by COPY, or a few by INSERT: once each, in the caller's transaction."""

import math
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import LogLine, MetricPoint, Sample
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow, MetricRow, SampleRow, store_logs, store_metrics, store_samples
from tests.integration.jobs import job_rows

AT = datetime(2030, 1, 1, tzinfo=UTC)
ODD = ["", " ", "tab\tand \\ and \\N", "\\.", "'; DROP TABLE jobs; --", "grün 😀 \u2028", '"quoted"', "\r", "x" * 16384]


@pytest.fixture(autouse=True, params=[0, 10], ids=["copied", "inserted"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_FEW", request.param)


def point(step: int, value: float = 1.0, *, name: str = "loss") -> MetricRow:
    return MetricRow("j", name, 0, step, 1, 1, AT, value)


def sample(second: int, *, step: int | None = None, **values: float) -> SampleRow:
    return SampleRow("j", 1, 0, AT + timedelta(seconds=second), "ha", 0, step, None, values)


def points(sessions: Sessions) -> list[tuple[int, float]]:
    with sessions() as session:
        return [
            (row.step, row.value)
            for row in session.execute(select(MetricPoint.step, MetricPoint.value).order_by(MetricPoint.step))
        ]


def test_metrics_are_stored(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_metrics(session, [point(step, step / 3)._replace(rank=ingest.ALL_RANKS) for step in range(1000)])
    assert points(sessions) == [(step, step / 3) for step in range(1000)]


def test_storing_no_rows_sends_no_statement(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_metrics(session, [])
        assert not session.connection().connection.driver_connection.info.transaction_status


def test_a_point_that_is_stored_already_stays_and_the_others_are_added(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_metrics(session, [point(1, 0.1), point(2, 0.2)])
    with sessions.begin() as session:
        store_metrics(session, [point(2, 99.0), point(3, 0.3), point(3, 99.0)])
        store_metrics(session, [point(4, 0.4)])
    assert points(sessions) == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_nan_and_infinity_are_stored_unchanged(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_metrics(session, [point(1, math.nan), point(2, math.inf), point(3, -math.inf), point(4, 1e-320)])
    values_by_step = dict(points(sessions))
    assert math.isnan(values_by_step.pop(1))
    assert values_by_step == {2: math.inf, 3: -math.inf, 4: 1e-320}


def test_log_lines_are_stored_unchanged_and_in_order(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_logs(session, [LogRow("j", 1, 0, AT, line) for line in ODD])
    with sessions() as session:
        assert list(session.scalars(select(LogLine.text).order_by(LogLine.id))) == ODD


def test_missing_figures_of_samples_are_stored_as_null(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_samples(session, [sample(0, gpu_percent=97.5, memory_bytes=2**40), sample(1)])
        store_samples(session, [sample(1, gpu_percent=5.0), sample(2, step=7)])
    with sessions() as session:
        rows = session.scalars(select(Sample).order_by(Sample.at)).all()
        assert [(one.gpu_percent, one.memory_bytes, one.step) for one in rows] == [
            (97.5, 2**40, None),
            (None, None, None),
            (None, None, 7),
        ]


@pytest.mark.parametrize("first", [True, False], ids=["first-in-transaction", "after-another"])
@pytest.mark.parametrize("doubled", [True, False], ids=["with-a-duplicate", "plain"])
def test_a_rollback_by_the_caller_removes_the_rows(sessions: Sessions, first: bool, doubled: bool) -> None:
    with sessions() as session:
        if not first:
            session.execute(text("SELECT 1"))
        store_metrics(session, [point(1), point(1 if doubled else 2)])
        session.rollback()
    assert points(sessions) == []


def test_a_row_that_cannot_be_stored_fails_its_whole_batch(sessions: Sessions) -> None:
    with pytest.raises(psycopg.DataError), sessions.begin() as session:
        store_metrics(session, [point(1), point(2, name="n" * 65)])
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
    with sessions.begin() as session:  # the next one takes a new connection
        store_metrics(session, [point(2)])
    assert points(sessions) == [(2, 1.0)]
    assert job_rows.count(sessions, MetricPoint) == 1
