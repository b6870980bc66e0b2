"""A study to submit, and the ends of its jobs, as rows that a worker would have written."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func

from jobs.db.engine import Sessions
from jobs.lifecycle.store import transition
from jobs.model.states import Status
from jobs.telemetry.ingest import ALL_RANKS
from tests.integration.api.starting_rows import an_attempt, metric_points, seconds

BASE = {"dataset": "digits", "learning_rate": 0.001}
GRID = {"gpus": [1, 2], "batch_size": [32, 64]}
STUDY = {"name": "scaling", "base": BASE, "grid": GRID, "repeats": 2}
Json = dict[str, Any]


def job_ids(study: Json) -> list[str]:
    """The newest job of each cell and repeat."""
    return [job["id"] for cell in study["cells"] for job in cell["jobs"]]


def bring_to(sessions: Sessions, job_id: str, *statuses: Status, **summary: Any) -> None:
    """Bring a job from status to status. A job that succeeds gets the summary."""
    with sessions.begin() as session:
        for to in statuses:
            ended = {"ended_at": func.now()} if to in (Status.SUCCEEDED, Status.FAILED) else {}
            transition(session, job_id, to, **ended | ({"summary": summary} if to is Status.SUCCEEDED else {}))


def succeed(sessions: Sessions, job_id: str, wall_s: float, *, accuracies: list[float], gpus: int) -> None:
    """Let a job succeed on one host. Its epochs take `wall_s` in all, and its slots are leased two seconds longer."""
    bring_to(
        sessions, job_id, Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED,
        wall_s=wall_s, setup_s=1.5, train_samples_per_s=1200 / wall_s, val_accuracy=max(accuracies),
        epochs_run=len(accuracies),
    )  # fmt: skip
    shares = [{"host": "ha", "slots": list(range(gpus))}]
    an_attempt(
        sessions,
        job_id,
        gpus=gpus,
        shares=shares,
        created_at=seconds(0),
        ended_at=seconds(0) + timedelta(seconds=wall_s + 2),
    )
    steps = [4 * (i + 1) for i in range(len(accuracies))]
    epoch_s = wall_s / len(accuracies)
    metric_points(sessions, job_id, zip(steps, accuracies, strict=True), name="val_accuracy", rank=ALL_RANKS)
    metric_points(sessions, job_id, [(step, epoch_s) for step in steps], name="epoch_s", rank=ALL_RANKS)
