"""How much of each job was sent to another tracking server, and what to send next.

Points cannot be removed from such a server. So a point is sent only when no restart can make it void: up to the job's
newest checkpoint, and the rest at the job's end. If a restart goes back further because that checkpoint was lost, the
run on the server is deleted and made again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy import BigInteger, cast, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, JobEvent, Mirror
from jobs.lifecycle.store import get_job
from jobs.model.states import EventKind, Status
from jobs.outward.mirroring.points import Point, metrics, samples

_FRESH = timedelta(days=1)  # a job that ended longer ago, and was never sent, is not sent
_MOST_STEPS = 1000  # of a series of every step, if all epochs run
_MOST_REFUSALS = 10
_PAUSE_S, _LONGEST_PAUSE_S = 10, 3600  # pause after a refusal, doubled with each further one


class Position(BaseModel):
    """How much of a job the other server has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    attempt: int = 0  # the newest attempt among the sent points
    step: int = 0  # points up to here were sent
    every: int | None = None  # every n-th step is sent; null until the plan is final
    sampled_to: datetime | None = None  # samples up to here were sent
    status: Status | None = None  # the status that was sent
    is_described: bool = False  # the params were sent
    void_run: str | None = None  # a run that has to be deleted
    refusals: int = 0  # since the last success


@dataclass(frozen=True)
class Work:
    """What to do for a job now: delete its run and start again, or send what is new."""

    job: Job
    run_id: str | None
    before: Position
    after: Position  # when the work is done
    points: Sequence[Point] = ()

    @property
    def is_void(self) -> bool:
        """Whether the sent points are no longer the job's curve."""
        return self.after.void_run is not None

    @property
    def is_needless(self) -> bool:
        """Whether there is nothing to send."""
        return self.before == self.after and not self.points and not self.is_last

    @property
    def is_last(self) -> bool:
        """Whether nothing will follow."""
        return self.job.ended_at is not None and not self.is_void


def begin(session: Session) -> None:
    """Add a row for each job that started and has none. Batch probes are skipped: they leave no curve."""
    live = Job.status.in_([Status.QUEUED, Status.LAUNCHING, Status.RUNNING])
    fresh = or_(live, Job.ended_at > func.now() - _FRESH)
    trains = (Job.started_at.is_not(None), Job.spec["probe"].astext.is_(None))
    new_jobs = select(Job.id).where(fresh, *trains, ~exists().where(Mirror.job_id == Job.id))
    session.execute(insert(Mirror).from_select(["job_id"], new_jobs).on_conflict_do_nothing())


def unfinished(session: Session) -> list[str]:
    """The ids of jobs that have or may get something to send, the longest waiting first."""
    refusals = cast(func.coalesce(Mirror.state["refusals"].astext, "0"), BigInteger)
    pause_s = func.least(_PAUSE_S * func.power(2.0, refusals), _LONGEST_PAUSE_S)
    rested = or_(refusals == 0, func.extract("epoch", func.now() - Mirror.touched_at) > pause_s)
    due = select(Mirror.job_id).where(Mirror.done_at.is_(None), rested)
    return list(session.scalars(due.order_by(Mirror.touched_at, Mirror.job_id)))


def work_on(session: Session, job_id: str, *, sample_period_s: float) -> Work:
    """What to do for a job that has a row. All of it is read as of one moment."""
    session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    job, mirror = get_job(session, job_id), session.get_one(Mirror, job_id)
    before = Position.model_validate(mirror.state)
    if before.void_run is None and _went_back_to(session, job_id, before.attempt) < before.step:
        return Work(job, mirror.run_id, before, Position(void_run=mirror.run_id))
    attempt, until = _final_until(session, job)
    changed: dict[str, Any] = {"status": job.status, "void_run": None, "refusals": 0}
    points: list[Point] = []
    if attempt or job.ended_at is not None:
        every = before.every or _every(job)
        points = metrics(session, job, after=before.step, until=until, every=every)
        changed |= {"is_described": True, "every": every}
    if points:
        changed |= {"attempt": attempt, "step": points[-1].step}
    sampled, changed["sampled_to"] = samples(session, job, after=before.sampled_to, period_s=sample_period_s)
    return Work(job, mirror.run_id, before, before.model_copy(update=changed), [*points, *sampled])


def _went_back_to(session: Session, job_id: str, attempt: int) -> float:
    """The earliest step that an attempt after this one resumed from; infinity if there is none."""
    later = (Attempt.job_id == job_id, Attempt.number > attempt)
    step = session.scalar(select(func.min(Attempt.resumed_step)).where(*later))
    return math.inf if step is None else step


def _final_until(session: Session, job: Job) -> tuple[int, float]:
    """The newest attempt that wrote anything (0: none), and the step up to which nothing can become void."""
    wrote = (Attempt.job_id == job.id, Attempt.resumed_step.is_not(None))
    newest = session.execute(
        select(Attempt.number, Attempt.resumed_step).where(*wrote).order_by(Attempt.number.desc()).limit(1)
    ).one_or_none()
    if newest is None:
        return 0, 0
    if job.ended_at is not None:
        return newest.number, math.inf
    saved = (
        JobEvent.job_id == job.id, JobEvent.attempt == newest.number, JobEvent.kind == EventKind.CHECKPOINT_SAVED,
    )  # fmt: skip
    step = JobEvent.data["step"].astext.cast(BigInteger)
    checkpoint = session.scalar(select(step).where(*saved).order_by(JobEvent.id.desc()).limit(1))
    return newest.number, max(newest.resumed_step, checkpoint or 0)


def _every(job: Job) -> int:
    return max(1, -(-int(job.plan["epochs"]) * int(job.plan["steps_per_epoch"] or 0) // _MOST_STEPS))


def save(session: Session, work: Work, after: Position, *, run_id: str | None, done: bool = False) -> bool:
    """Store how much was sent; False if another worker changed the row meanwhile."""
    unchanged = (Mirror.job_id == work.job.id, Mirror.state == cast(_position_json(work.before), JSONB))
    values = {"run_id": run_id, "state": _position_json(after), "error": None, "touched_at": func.now()}
    values |= {"done_at": func.now()} if done else {}
    return session.scalar(update(Mirror).where(*unchanged).values(**values).returning(Mirror.job_id)) is not None


def refused(session: Session, job_id: str, error: str) -> bool:
    """Store that the server refused a job's data. Returns whether the job is now given up."""
    mirror = session.get(Mirror, job_id, with_for_update=True)
    if mirror is None:  # the job was deleted
        return True
    refusals = Position.model_validate(mirror.state).refusals + 1
    mirror.state, mirror.error = {**mirror.state, "refusals": refusals}, error
    mirror.touched_at = session.scalars(select(func.now())).one()
    if refusals == _MOST_REFUSALS:
        mirror.done_at = mirror.touched_at
    return refusals == _MOST_REFUSALS


def _position_json(position: Position) -> dict[str, Any]:
    return position.model_dump(mode="json", exclude_defaults=True)
