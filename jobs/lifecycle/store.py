"""The job store: look up, cancel, pause, resume, and the one function that writes a status.

Called by the api (look-ups, requests of people), and through `jobs.lifecycle.leases` by dispatcher, supervisor and
reaper.
Every function works in the caller's transaction; the caller commits.

    JobNotFound             no job has this id
    JobEnded                the job has ended already, so it cannot be cancelled, paused or resumed
    JobNotEnded             the job has not ended, so it cannot be moved, archived or deleted
    JobInUse                something needs the job where it is
    StaleTransition         the job has another status than the caller believes; nothing was written
"""

import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    and_,
    bindparam,
    cast,
    exists,
    false,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate

from jobs.db.storable import storable
from jobs.db.tables import Attempt, Job, JobEvent
from jobs.lifecycle import waits
from jobs.lifecycle.deliveries import HAS_WEBHOOKS, add_job_deliveries
from jobs.model.states import SOURCES, TERMINAL, EndReason, EventKind, Status

_MOST_AT_ONCE = 1000  # waiting jobs that one statement changes
ID_LENGTH = 12
ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no two characters look alike


class JobNotFound(LookupError):
    """No job has this id."""


class JobEnded(ValueError):
    """The job has ended; `status` says how."""

    def __init__(self, job_id: str, status: Status, consequence: str = "") -> None:
        self.status = status
        how = "was already" if status is Status.CANCELLED else "has already"
        super().__init__(f"job {job_id} {how} {status}{consequence}")


class JobNotEnded(ValueError):
    """The job has not ended; `then` says what can be done with it when it has."""

    def __init__(self, job_id: str, status: Status, then: str) -> None:
        super().__init__(f"job {job_id} is {status}: {then} when it has ended; cancel it, or wait")


class JobInUse(ValueError):
    """Something needs the job where it is; the text says what."""


class StaleTransition(RuntimeError):
    """The guarded UPDATE found no row: the job has another status now, or the caller lost the lease."""

    def __init__(self, job_id: str, to: Status) -> None:
        super().__init__(f"job {job_id} cannot become {to} for this writer")


@dataclass(frozen=True)
class Lease:
    """The right to write to an attempt: its row, and the token that the row must still have."""

    attempt_id: int
    token: str
    job_id: str
    number: int


# For statements that are built once: each value is a parameter. They are run with `vars` of a lease.
ANY_LEASE = Lease(*(bindparam(field.name) for field in fields(Lease)))  # type: ignore[arg-type]


def new_id() -> str:
    """A new id that is hard to guess and to misread."""
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH))


def get_job(session: Session, job_id: str) -> Job:
    """The job with this id. Raises `JobNotFound`."""
    job = session.get(Job, job_id, populate_existing=True)
    if job is None:
        raise JobNotFound(job_id)
    return job


def some_jobs(session: Session, job_ids: Sequence[str]) -> list[Job]:
    """The jobs with these ids, in this sequence and each once. Unknown ids are left out."""
    query = select(Job).where(Job.id == func.any(cast(job_ids, ARRAY(String))))
    jobs = {job.id: job for job in session.scalars(query, execution_options=_FRESH)}
    return [jobs[job_id] for job_id in dict.fromkeys(job_ids) if job_id in jobs]


def request_cancel(session: Session, job_id: str, *, saves: bool = False) -> Job:
    """Request the cancel of a job. A queued job is cancelled at once, a running one by its supervisor.

    With `saves`, a running one saves a checkpoint first, as for a pause. Repeating the request changes nothing, but one
    without `saves` ends the saving. Raises `JobNotFound`, and `JobEnded` if it ended without being cancelled.
    """
    job = locked_job(session, job_id)
    if job.status in TERMINAL and job.status is not Status.CANCELLED:
        raise JobEnded(job_id, job.status)
    is_first = job.cancel_requested_at is None
    if job.status not in TERMINAL and (is_first or (not saves and cancel_saves(session, job_id))):
        touch(session, job_id, cancel_requested_at=func.now())
        add_event(session, job_id, EventKind.CANCEL_REQUESTED, data={"saves": True} if saves else None)
        if job.status is Status.QUEUED:
            transition(session, job_id, Status.CANCELLED, end_reason=EndReason.CANCELLED, ended_at=func.now())
            add_event(session, job_id, EventKind.ENDED, data={"status": "cancelled", "end_reason": "cancelled"})
    return get_job(session, job_id)


def cancel_saves(session: Session, job_id: str) -> bool:
    """Whether a job that is being cancelled saves a checkpoint first: the newest request says so."""
    return bool(session.scalar(select(CANCEL_SAVES).where(Job.id == job_id)))


CANCEL_SAVES: ColumnElement[bool] = func.coalesce(  # the same of any job, in SQL
    select(JobEvent.data["saves"].as_boolean())
    .where(JobEvent.job_id == Job.id, JobEvent.kind == EventKind.CANCEL_REQUESTED)
    .order_by(JobEvent.id.desc())
    .limit(1)
    .correlate(Job)
    .scalar_subquery(),
    false(),
)


def pause(session: Session, job_id: str) -> Job:
    """Pause a job. A queued job is not placed; a running one saves and goes back to the queue.

    Repeating it, or pausing after a cancel, changes nothing. Raises `JobNotFound`, `JobEnded`.
    """
    job = locked_job(session, job_id)
    if job.status in TERMINAL:
        raise JobEnded(job_id, job.status)
    if job.paused_at is None and job.cancel_requested_at is None:
        touch(session, job_id, paused_at=func.now())
        add_event(session, job_id, EventKind.PAUSE_REQUESTED)
    return get_job(session, job_id)


def resume(session: Session, job_id: str) -> Job:
    """Resume a paused job from its place in the queue. Repeating it changes nothing.

    Raises `JobNotFound`, `JobEnded`.
    """
    job = locked_job(session, job_id)
    if job.status in TERMINAL:
        raise JobEnded(job_id, job.status)
    if job.paused_at is not None:
        touch(session, job_id, paused_at=None, idle=None, queued_at=func.now())
        add_event(session, job_id, EventKind.RESUMED)
    return get_job(session, job_id)


def locked_job(session: Session, job_id: str) -> Job:
    """The job with this id. Nobody else changes its row before the commit. Raises `JobNotFound`."""
    job = session.scalar(select(Job).where(Job.id == job_id).with_for_update(), execution_options=_FRESH)
    if job is None:
        raise JobNotFound(job_id)
    return job


def transition(session: Session, job_id: str, to: Status, *, lease: Lease | None = None, **values: Any) -> None:
    """Move a job to `to`, with `values` for other columns.

    If there is a `lease`, it must be that of the job's live attempt. Raises `StaleTransition`.
    """
    guards, parameters = ((), {}) if lease is None else ((_has_lease(),), vars(lease))
    if not move(session, [job_id], to, *guards, parameters=parameters, **values):
        raise StaleTransition(job_id, to)


def move(
    session: Session,
    job_ids: Sequence[str],
    to: Status,
    *guards: ColumnElement[bool],
    parameters: Mapping[str, Any] = {},
    **values: Any,
) -> dict[str, int]:
    """Move to `to` those of the jobs that can get there. The only writer of a status. Returns attempt numbers by id.

    The UPDATE is the check: a job must have a status from which `to` can follow, and all `guards` must hold, with
    these `parameters`. Whoever ends jobs has locked them for update: see `jobs.lifecycle.waits`.
    """
    moved = _write_status(session, job_ids, to, *guards, parameters=parameters, **values)
    if to in TERMINAL and (concerned := [row.id for row in moved if row.concerns_others]):
        _tell_waiting(session, concerned, to)
    return {row.id: row.attempt for row in moved}


def _write_status(
    session: Session,
    job_ids: Sequence[str],
    to: Status,
    *guards: ColumnElement[bool],
    parameters: Mapping[str, Any] = {},
    **values: Any,
) -> Sequence[Row[Any]]:
    if to in TERMINAL:
        values |= {"waits_for_jobs": False, "idle": None}  # it waits for nothing and holds no slots any more
    expressions = {name: value for name, value in values.items() if isinstance(value, ColumnElement)}
    stored = {f"new_{name}": value for name, value in storable(values).items() if name not in expressions}
    statement = _status_update(to, guards, tuple(values), tuple(expressions.items()))
    moved = session.connection().execute(statement, {"ids": list(job_ids), **parameters, **stored}).all()
    if to in TERMINAL and any(row.has_webhooks for row in moved):
        add_job_deliveries(session, [row.id for row in moved])  # in the same transaction: every end has its deliveries
    return moved


# Each attempt runs this several times, and building it takes longer than running it. Expressions that are constants of
# a module are found again.
@lru_cache(maxsize=100)
def _status_update(
    to: Status,
    guards: Sequence[ColumnElement[bool]],
    columns: Sequence[str],
    expressions: Sequence[tuple[str, ColumnElement[Any]]],
) -> ReturningUpdate[*tuple[Any, ...]]:
    values = {name: bindparam(f"new_{name}", type_=getattr(Job, name).type) for name in columns} | dict(expressions)
    statement = (
        update(Job)
        .where(Job.id == func.any(bindparam("ids", type_=ARRAY(String))), Job.status.in_(SOURCES[to]), *guards)
        .values({"status": to, "revision": Job.revision + 1, **values})
        .returning(Job.id, Job.attempt)
    )
    if to not in TERMINAL:
        return statement
    return statement.returning(HAS_WEBHOOKS.label("has_webhooks"), waits.CONCERNS_OTHERS.label("concerns_others"))


def settle_overlooked(session: Session) -> bool:
    """Do what the end of a job does for those that wait for it, where it was not done. Returns whether there were any.

    Called now and then by a worker: a supervisor of an older version ends its job without it. It also releases queued
    jobs that are said to wait, but for no job.
    """
    ended = waits.overlooked(session)
    for status in {job.status for job in ended}:
        _tell_waiting(session, [job.id for job in ended if job.status is status], status)
    stranded = waits.stranded(session)
    if stranded:
        touch_all(session, stranded, waits_for_jobs=False, queued_at=func.now())
    return bool(ended or stranded)


def _tell_waiting(session: Session, ended_ids: Sequence[str], status: Status) -> None:
    """Release the jobs that waited for these, which succeeded; or cancel them, and those behind them."""
    waits.forget(session, ended_ids)
    if status is Status.SUCCEEDED:
        for released in _parts(waits.release_behind(session, ended_ids)):
            touch_all(session, released, waits_for_jobs=False, queued_at=func.now())
    else:
        _cancel_behind(session, ended_ids)


def _cancel_behind(session: Session, ended_ids: Sequence[str]) -> None:
    waits.lock_behind(session, ended_ids)
    causes = {job.id: f"job {job.id} {waits.ended_text(job)}" for job in some_jobs(session, ended_ids)}
    roots = set(causes)
    while behind := waits.directly_behind(session, causes):
        ids_by_error: dict[str, list[str]] = {}
        for job_id, other in behind.items():
            after = "it" if other in roots else f"job {other}, which waited for it"
            ids_by_error.setdefault(f"{causes[other]}, and this job was to run after {after}", []).append(job_id)
        cancelled: set[str] = set()
        for error, job_ids in ids_by_error.items():
            for part in _parts(job_ids):
                cancelled.update(_cancel_waiting(session, part, error))
        waits.forget(session, behind)
        for part in _parts([job_id for job_id in behind if job_id not in cancelled]):
            touch_all(session, part, waits_for_jobs=False)  # an older version placed it: it goes on, also in the queue
        causes = {job_id: causes[other] for job_id, other in behind.items() if job_id in cancelled}


def _cancel_waiting(session: Session, job_ids: Sequence[str], error: str) -> Collection[str]:
    """Cancel those that wait in the queue. Returns them."""
    why: dict[str, Any] = {"end_reason": EndReason.DEPENDENCY, "error": error}
    is_waiting = and_(Job.status == Status.QUEUED, Job.waits_for_jobs)
    moved = _write_status(session, job_ids, Status.CANCELLED, is_waiting, ended_at=func.now(), **why)
    ended = [row.id for row in moved]
    data = {"status": Status.CANCELLED, **why}
    if ended:
        session.execute(insert(JobEvent), [{"job_id": each, "kind": EventKind.ENDED, "data": data} for each in ended])
    return ended


def _parts(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids in parts, so that no statement reaches its time limit."""
    return (job_ids[start : start + _MOST_AT_ONCE] for start in range(0, len(job_ids), _MOST_AT_ONCE))


def touch(session: Session, job_id: str, **values: Any) -> None:
    """Change columns of a job, except its status."""
    touch_all(session, [job_id], **values)


def touch_all(session: Session, job_ids: Sequence[str], **values: Any) -> None:
    """Change columns of jobs, except their status."""
    session.execute(
        update(Job)
        .where(Job.id == func.any(cast(job_ids, ARRAY(String))))
        .values(storable({"revision": Job.revision + 1, **values})),
        execution_options=_UNSYNCHRONIZED,
    )


def select_leased(lease: Lease) -> Select[int]:
    """The attempt's row, if the lease on it is still valid."""
    return select(Attempt.id).where(is_valid(lease))


@cache
def _has_lease() -> ColumnElement[bool]:
    """Whether `ANY_LEASE` is that of the job's live attempt."""
    return and_(Job.id == ANY_LEASE.job_id, exists(select_leased(ANY_LEASE)))


def is_valid(lease: Lease) -> ColumnElement[bool]:
    """Whether the lease is on this attempt's row and is still valid."""
    return and_(
        Attempt.id == lease.attempt_id,
        Attempt.token == lease.token,
        Attempt.job_id == lease.job_id,
        Attempt.ended_at.is_(None),
    )


def add_event(
    session: Session,
    job_id: str,
    kind: EventKind,
    *,
    attempt: int | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Append to a job's history."""
    add_events(session, job_id, [(kind, data or {})], attempt=attempt)


def add_events(
    session: Session, job_id: str, events: Sequence[tuple[EventKind, dict[str, Any]]], *, attempt: int | None = None
) -> None:
    """Append to a job's history, in this sequence."""
    values = {
        "job_id": job_id,
        "attempt": attempt,
        "kinds": [kind.value for kind, _ in events],
        "data": [json.dumps(storable(data)) for _, data in events],
    }
    session.execute(_ADD_EVENTS, values)


# One statement for all: each one runs the trigger that tells of new events.
_ADD_EVENTS = text("""
    INSERT INTO job_events (job_id, attempt, kind, data)
    SELECT :job_id, :attempt, kind, data
    FROM unnest(CAST(:kinds AS varchar[]), CAST(:data AS jsonb[])) WITH ORDINALITY AS added (kind, data, number)
    ORDER BY number
""")

_FRESH: dict[str, Any] = {"populate_existing": True}
_UNSYNCHRONIZED: dict[str, Any] = {"synchronize_session": False}
