"""From which checkpoints a job may continue, by its rows: where the records before a checkpoint are stored too.

Called by the launch of an attempt, and by what copies checkpoints to the store. The files are looked for elsewhere.

A job may save a million checkpoints. So the rows of a few are read: the newest ones, and those that the caller names.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Select,
    Values,
    column,
    func,
    literal_column,
    select,
    true,
    values,
)
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, JobEvent
from jobs.db.tables.work import STEP_OF_EVENT
from jobs.model.spec import spec_from
from jobs.model.states import EventKind
from jobs.model.tasks import epoch_metrics, task_of
from jobs.telemetry.axes import valid_until

NEWEST = 100  # checkpoints that are read although nobody names them
_EPOCHS_BACK = 300  # in which a checkpoint's value is looked for: scripts may report a metric in few epochs
_LAST_STEP = 2**63 - 1
_STEP = literal_column(STEP_OF_EVENT, BigInteger)

Key = tuple[int, int]  # attempt and step of a checkpoint
_Row = Row[*tuple[Any, ...]]


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
    def key(self) -> Key:
        """Its attempt and step, by which the store knows it."""
        return self.attempt, self.step


def last_valid_steps(session: Session, job_id: str) -> dict[int, int | None]:
    """By attempt the last step that no later attempt trained again. None: no step was trained again."""
    until = valid_until(job_id)
    return {row.number: row.step for row in session.execute(select(until.c.number, until.c.step))}


def saved_checkpoints(session: Session, job: Job, keys: Collection[Key] = ()) -> list[SavedCheckpoint]:
    """Checkpoints of a job worth continuing from, the newest first: the newest `NEWEST`, and of `keys` those it has."""
    until = valid_until(job.id)
    valid = _saved_events(job).where(
        JobEvent.attempt == until.c.number, func.coalesce(until.c.step, _LAST_STEP) >= _STEP
    )
    newest = valid.order_by(_STEP.desc(), JobEvent.id.desc()).limit(NEWEST).lateral()
    query = select(newest).select_from(until.join(newest, true()))
    rows = session.execute(query.order_by(newest.c.step.desc(), newest.c.id.desc()).limit(NEWEST))
    return _with_values(session, job, {**_rows_of(session, job, keys), **_by_key(rows)})


def checkpoints_among(session: Session, job: Job, keys: Collection[Key]) -> list[SavedCheckpoint]:
    """Of `keys` those that are checkpoints of a job worth continuing from, the newest first."""
    return _with_values(session, job, _rows_of(session, job, keys))


def best_first(checkpoints: Sequence[SavedCheckpoint], job: Job) -> list[SavedCheckpoint]:
    """Those with a value, the best first; of equal ones the oldest first, as in the summary of a job."""
    metric = _deciding_metric(job)
    if metric is None:
        return []
    sign = 1.0 if spec_from(job.spec).is_lower_better(metric) else -1.0
    valued = [((sign * one.value, one.step, one.attempt), one) for one in checkpoints if one.value is not None]
    return [one for _, one in sorted(valued, key=lambda pair: pair[0])]


def _rows_of(session: Session, job: Job, keys: Collection[Key]) -> dict[Key, _Row]:
    """The newest event of each of these checkpoints, if it is valid."""
    until = last_valid_steps(session, job.id)
    ends = {number: _LAST_STEP if step is None else step for number, step in until.items()}
    wanted = [(attempt, step) for attempt, step in keys if step <= ends.get(attempt, -1)]
    if not wanted:
        return {}
    key = _table_of(wanted)
    of_key = _saved_events(job).where(JobEvent.attempt == key.c.attempt, key.c.step == _STEP)
    newest = of_key.order_by(_STEP.desc(), JobEvent.id.desc()).limit(1).lateral()
    return _by_key(session.execute(select(newest).select_from(key.join(newest, true()))))


def _with_values(session: Session, job: Job, rows: Mapping[Key, _Row]) -> list[SavedCheckpoint]:
    """These checkpoints, each with the value of the deciding metric at the newest epoch until then."""
    of_job = select(Attempt.number, Attempt.host).where(Attempt.job_id == job.id)
    hosts = {row.number: row.host for row in session.execute(of_job)}
    values = _values_at(session, job, rows)
    saved = [
        SavedCheckpoint(key[0], key[1], row.epoch, hosts[key[0]], row.at, values.get(key)) for key, row in rows.items()
    ]
    return sorted(saved, key=lambda checkpoint: (checkpoint.step, checkpoint.attempt), reverse=True)


def _values_at(session: Session, job: Job, keys: Collection[Key]) -> dict[Key, float]:
    """The deciding metric at the newest valid epoch before each of these checkpoints. Those without one are left out.

    A lateral query each, so that a few epochs are read of the millions that a job may have.
    """
    metric = _deciding_metric(job)
    if metric is None or not keys:
        return {}
    key, until = _table_of(keys), valid_until(job.id)
    last_step = func.least(func.coalesce(until.c.step, _LAST_STEP), key.c.step)
    back = (
        select(_STEP.label("step"), JobEvent.id, JobEvent.data[metric].label("value"))
        .where(*_are(job, EventKind.EPOCH_ENDED), JobEvent.attempt == until.c.number, last_step >= _STEP)
        .order_by(_STEP.desc(), JobEvent.id.desc())
        .limit(_EPOCHS_BACK)
        .correlate(key, until)
        .subquery()
    )
    newest = select(back).where(func.jsonb_typeof(back.c.value) == "number")
    epoch = newest.order_by(back.c.step.desc(), back.c.id.desc()).limit(1).lateral()
    query = (
        select(key.c.attempt, key.c.step, epoch.c.value)
        .select_from(key.join(until, until.c.number <= key.c.attempt).join(epoch, true()))
        .order_by(epoch.c.step, epoch.c.id)  # so that of the attempts the last one decides
    )
    return {(attempt, step): float(value) for attempt, step, value in session.execute(query)}


def _are(job: Job, kind: EventKind) -> tuple[ColumnElement[bool], ...]:
    """Whether these are events of a kind, which is written so that the planner always knows the index for it."""
    return JobEvent.job_id == job.id, JobEvent.kind == literal_column(f"'{kind.value}'")


def _saved_events(job: Job) -> Select[*tuple[Any, ...]]:
    events = select(
        JobEvent.attempt, _STEP.label("step"), JobEvent.data["epoch"].label("epoch"), JobEvent.at, JobEvent.id
    )
    return events.where(*_are(job, EventKind.CHECKPOINT_SAVED))


def _table_of(keys: Collection[Key]) -> Values:
    return values(column("attempt", Integer), column("step", BigInteger), name="wanted").data([*keys])


def _by_key(rows: Iterable[_Row]) -> dict[Key, _Row]:
    """The newest event of each checkpoint: an attempt may save the same step twice."""
    return {(row.attempt, row.step): row for row in sorted(rows, key=lambda row: int(row.id))}


def _deciding_metric(job: Job) -> str | None:
    """The metric that decides which epoch of a job is the best."""
    spec = spec_from(job.spec)
    return spec.best_by(job.metrics if spec.is_script else epoch_metrics(task_of(spec.task, job.dataset)))
