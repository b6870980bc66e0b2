"""Metrics, logs and samples come by COPY, or a few by INSERT: once each, in the caller's transaction."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import LogLine, MetricPoint
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow, MetricRow, store_logs, store_metrics
from tests.integration.jobs import job_rows

AT = datetime(2030, 1, 1, tzinfo=UTC)
ODD = ["", " ", "tab\tand \\ and \\N", "\\.", "'; DROP TABLE jobs; --", "grün 😀 \u2028", '"quoted"', "\r", "x" * 16384]


@pytest.fixture(autouse=True, params=[0, 10], ids=["copied", "inserted"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_FEW", request.param)


def point(step: int, value: float = 1.0, *, name: str = "loss") -> MetricRow:
    return MetricRow("j", name, 0, step, 1, 1, AT, value)


def points(sessions: Sessions) -> list[tuple[int, float]]:
    with sessions() as session:
        return [
            (row.step, row.value)
            for row in session.execute(select(MetricPoint.step, MetricPoint.value).order_by(MetricPoint.step))
        ]


def test_storing_no_rows_sends_no_statement(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_metrics(session, [])
        assert not session.connection().connection.driver_connection.info.transaction_status


def test_log_lines_are_stored_unchanged_and_in_order(sessions: Sessions) -> None:
    with sessions.begin() as session:
        store_logs(session, [LogRow("j", 1, 0, AT, line) for line in ODD])
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
    with sessions.begin() as session:  # the next one takes a new connection
        store_metrics(session, [point(2)])
    assert points(sessions) == [(2, 1.0)]
    assert job_rows.count(sessions, MetricPoint) == 1
