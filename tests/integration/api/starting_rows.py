"""Data from which the tests of the API start: a token, a spec, and rows that a worker would have written."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import func, update

from api.main import app_for
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.model.log_levels import LogLevel
from jobs.model.states import EndReason, Status
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow, MetricRow, SampleRow
from tests.integration.jobs.writing import change, write

TOKEN = "hora_test-token"
SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
START = datetime(2030, 1, 1, tzinfo=UTC)


def client_with(configuration: Settings, **changes: object) -> TestClient:
    """A client, with the token, of an app of its own with changes to the settings."""
    app = app_for(configuration.model_copy(update=changes))
    return TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {TOKEN}"})


def seconds(after_start: float) -> datetime:
    """The time so many seconds after `START`."""
    return START + timedelta(seconds=after_start)


def a_host(sessions: Sessions, name: str = "ha", *, slots: int = 2, kind: str = "cpu") -> None:
    """Register a host with free slots."""
    with sessions.begin() as session:
        session.add(Host(name=name, info={"cores": slots}))
        session.flush()
        session.add_all(Slot(host=name, index=i, kind=kind, name=kind) for i in range(slots))


def an_attempt(sessions: Sessions, job_id: str, number: int = 1, **values: Any) -> int:
    """Add an ended attempt to a job that started at `START`; returns the attempt's id."""
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(started_at=START))
        fields = {"host": "ha", "gpus": 2, "lease_expires_at": START, "ended_at": START, "started_at": START}
        fields["shares"] = [{"host": values.get("host", "ha"), "slots": [0, 1]}]
        attempt = Attempt(job_id=job_id, number=number, **fields | values)
        session.add(attempt)
        session.flush()
        return attempt.id


def end_job(sessions: Sessions, job_id: str, *, stored_bytes: int = 0) -> None:
    """Let a job have failed, with so many bytes of checkpoints."""
    ended = {"status": Status.FAILED, "end_reason": EndReason.BAD_DATA, "ended_at": func.now()}
    change(sessions, update(Job).where(Job.id == job_id).values(**ended, checkpoint_bytes=stored_bytes))


def metric_points(
    sessions: Sessions,
    job_id: str,
    points: Iterable[tuple[int, float]],
    *,
    name: str = "loss",
    rank: int = 0,
    attempt: int = 1,
) -> None:
    """Store (step, value) points: four steps an epoch, two steps a second."""
    rows = [
        MetricRow(job_id, name, rank, step, attempt, (step + 3) // 4, seconds(step / 2), value)
        for step, value in points
    ]
    write(sessions, ingest.store_metrics, rows)


def log_lines(
    sessions: Sessions,
    job_id: str,
    lines: Iterable[tuple[int, str]],
    *,
    level: LogLevel = LogLevel.INFO,
    attempt: int = 1,
    at_s: float = 0,
) -> None:
    """Store (rank, text) lines."""
    rows = [LogRow(job_id, attempt, rank, seconds(at_s), text, level.number) for rank, text in lines]
    write(sessions, ingest.store_logs, rows)


def samples(sessions: Sessions, job_id: str, values: Iterable[dict[str, Any]], *, rank: int = 0) -> None:
    """Store one sample a second of one slot. A sample without a `step` gets the number of its second."""
    rows = []
    for i, measured in enumerate(values):
        step, metrics = measured.get("step", i), {name: value for name, value in measured.items() if name != "step"}
        rows.append(SampleRow(job_id, 1, rank, seconds(i), "ha", rank, step, None, metrics))
    write(sessions, ingest.store_samples, rows)
