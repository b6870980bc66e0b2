"""Runs of scripts for tests: the records that ranks would write are stored by the intake of a worker."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.records import Reported, ScriptSummary, Summarized
from jobs.model.states import EndReason
from tests.code import store_code
from tests.integration.jobs import job_rows
from tests.integration.jobs.intake.rank_files import rank_started, write
from worker.attempt.paths import paths_of

START = 1e9  # when the rank of a run starts, in seconds since the Unix epoch


def script_of(sessions: Sessions, **fields: Any) -> dict[str, Any]:
    """The spec of a script whose code is stored."""
    return {"code": store_code(sessions), "command": ["python", "train.py"], "gpus": 2} | fields


def reported(at: float, **fields: Any) -> Reported:
    """A report; fields that a report does not have are metrics."""
    own = {name: fields.pop(name) for name in list(fields) if name in Reported.model_fields}
    return Reported(at=at, metrics=fields, **own)


def regression(
    maes: list[float],
    *,
    training: list[float] | None = None,
    epoch_s: float = 2.0,
    steps: int = 4,
    at: float = START + 5,
) -> list[Reported]:
    """The reports of a regression: `mae` at each step, `val_mae` and `val_r2` at the end of each epoch."""
    reports, step_s = [], epoch_s / steps
    for epoch, mae in enumerate(maes, start=1):
        for step in range(steps * (epoch - 1) + 1, steps * epoch + 1):
            times = {} if step == 1 else {"step_time_s": step_s, "samples_per_s": 32 / step_s}
            of_training = training[epoch - 1] if training else 0.9 * mae
            reports.append(reported(at + step * step_s, step=step, epoch=epoch, mae=of_training, **times))
        figures = {"val_mae": mae, "val_r2": 1 - mae}
        reports.append(reported(at + epoch * epoch_s, epoch=epoch, wall_s=epoch_s, **figures))
    return reports


def start(
    sessions: Sessions, job_id: str, folder: Path, reports: list[Any], *, slots: tuple[int, ...] = (0, 1)
) -> Lease:
    """Place a job on host `ha`, and store these reports of rank 0."""
    lease = job_rows.an_attempt(sessions, job_id, slots=slots)
    with sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
    store(sessions, lease, folder, [rank_started(0).model_copy(update={"at": START}), *reports])
    return lease


def store(sessions: Sessions, lease: Lease, folder: Path, records: list[Any]) -> None:
    """Store more records of rank 0."""
    paths = paths_of(folder, lease.job_id, lease.number)
    paths.create()
    write(paths, 0, *records)
    Intake(sessions, lease, paths, ranks=1).store_new()


def finish(sessions: Sessions, lease: Lease, folder: Path, *, ended_at: float = START + 60, **summary: Any) -> None:
    """Let the run come to its end. Its slots were leased ten seconds before its rank started."""
    figures = {"wall_s": 20.0, "setup_s": 2.0} | summary
    store(sessions, lease, folder, [Summarized(at=ended_at, summary=ScriptSummary(**figures))])
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.release(session, lease.attempt_id)
        times = {"created_at": _time(START - 10), "started_at": _time(START), "ended_at": _time(ended_at)}
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(**times))


def run(sessions: Sessions, job_id: str, folder: Path, reports: list[Any], **summary: Any) -> None:
    """All of a script's run, which succeeds."""
    finish(sessions, start(sessions, job_id, folder, reports), folder, **summary)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
