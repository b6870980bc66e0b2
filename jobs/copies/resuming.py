"""From which checkpoints a job may continue, by its rows: where the records before a checkpoint are stored too.

Called by the launch of an attempt, and by what copies checkpoints to the store. The files are looked for elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, cast, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, JobEvent
from jobs.model.spec import EPOCH_METRICS, spec_from
from jobs.model.states import EventKind
from jobs.telemetry.axes import valid_until


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint that an attempt saved. No later attempt trained its steps again."""

    attempt: int
    step: int
    epoch: int
    host: str  # that has its files
    saved_at: datetime
    value: float | None = None  # of the metric that decides which epoch is the best, at its newest epoch

    @property
    def key(self) -> tuple[int, int]:
        """Its attempt and step, by which the store knows it."""
        return self.attempt, self.step


def last_valid_steps(session: Session, job_id: str) -> dict[int, int | None]:
    """By attempt the last step that no later attempt trained again. None: no step was trained again."""
    until = valid_until(job_id)
    return {row.number: row.step for row in session.execute(select(until.c.number, until.c.step))}


def saved_checkpoints(session: Session, job: Job) -> list[SavedCheckpoint]:
    """The checkpoints of a job that are worth continuing from, the newest first."""
    until = valid_until(job.id)
    step = cast(JobEvent.data["step"].astext, BigInteger)
    query = (
        select(JobEvent.kind, JobEvent.attempt, JobEvent.at, JobEvent.data, Attempt.host)
        .join(Attempt, (Attempt.job_id == JobEvent.job_id) & (Attempt.number == JobEvent.attempt))
        .join(until, until.c.number == JobEvent.attempt)
        .where(JobEvent.job_id == job.id)
        .where(JobEvent.kind.in_([EventKind.CHECKPOINT_SAVED, EventKind.EPOCH_ENDED]))
        .where(or_(until.c.step.is_(None), step <= until.c.step))
        .order_by(step, JobEvent.id)
    )
    metric = _deciding_metric(job)
    newest_value: float | None = None
    saved: dict[tuple[int, int], SavedCheckpoint] = {}
    for kind, attempt, at, data, host in session.execute(query):
        if kind is EventKind.EPOCH_ENDED:
            value = data.get(metric)
            newest_value = float(value) if isinstance(value, int | float) else newest_value
        else:
            checkpoint = SavedCheckpoint(attempt, data["step"], data["epoch"], host, at, newest_value)
            saved[attempt, checkpoint.step] = checkpoint
    return sorted(saved.values(), key=lambda checkpoint: (checkpoint.step, checkpoint.attempt), reverse=True)


def best_first(checkpoints: Sequence[SavedCheckpoint], job: Job) -> list[SavedCheckpoint]:
    """Those with a value, the best first; of equal ones the newest first."""
    metric = _deciding_metric(job)
    if metric is None:
        return []
    sign = -1.0 if spec_from(job.spec).is_lower_better(metric) else 1.0
    valued = [((sign * one.value, one.step, one.attempt), one) for one in checkpoints if one.value is not None]
    return [one for _, one in sorted(valued, key=lambda pair: pair[0], reverse=True)]


def _deciding_metric(job: Job) -> str | None:
    """The metric that decides which epoch of a job is the best."""
    spec = spec_from(job.spec)
    return spec.best_by(job.metrics if spec.is_script else EPOCH_METRICS)
