"""Jobs that wait for others: `job_waits` has a row for each job that has not ended, and each job that waits for it.

The submission writes the rows. The end of a job takes them away in its own transaction (`jobs.lifecycle.store.move`):
with success the jobs behind it that wait for nothing else are released, else all jobs behind it are cancelled.

**Two ends at once.** Whoever takes rows of a job away has locked that job first. So of two jobs that end at the same
moment, the second one sees that it was the last.

**A submission meanwhile.** It locks the jobs that it names (`jobs.lifecycle.named_jobs`), and whoever ends a job has
locked it for update. So the new job sees the end, or the end sees the new job.

**No deadlock.** Whoever locks several jobs does so by age, and a job is younger than those that it waits for. Where
that does not hold because a clock was set back, the database ends one of two transactions, and it is tried again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, String, cast, delete, exists, func, insert, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.db.tables import Job, JobWait
from jobs.model.states import TERMINAL, Status

_BATCH = 100
BY_AGE = (Job.created_at, Job.id)
# Whether a job waits, or is waited for. Two conditions, because each has an index.
CONCERNS_OTHERS = or_(exists().where(JobWait.job_id == Job.id), exists().where(JobWait.on_job_id == Job.id))


@dataclass(frozen=True)
class Awaited:
    """A job that another one waits for, its status, and whether it is paused."""

    job_id: str
    status: Status
    paused: bool = False

    @property
    def state(self) -> str:
        """Its status; `paused` if it is queued and paused."""
        return "paused" if self.paused and self.status is Status.QUEUED else str(self.status)


def awaited_by(session: Session, job_ids: Collection[str]) -> dict[str, list[Awaited]]:
    """The jobs that each of these waits for, the oldest first."""
    columns = JobWait.job_id, Job.id, Job.status, Job.paused_at.is_not(None)
    query = select(*columns).join(Job, Job.id == JobWait.on_job_id)
    others: dict[str, list[Awaited]] = {}
    for job_id, other, status, paused in session.execute(query.where(_is_waiting(job_ids)).order_by(*BY_AGE)):
        others.setdefault(job_id, []).append(Awaited(other, status, paused))
    return others


def add_waits(session: Session, waits: Mapping[str, Iterable[str]]) -> None:
    """Write for which jobs each of these new jobs waits."""
    rows = [{"job_id": job_id, "on_job_id": other} for job_id, others in waits.items() for other in others]
    if rows:
        session.execute(insert(JobWait), rows)


def lock_behind(session: Session, job_ids: Collection[str]) -> None:
    """Lock the jobs that wait for these, for those, and so on."""
    behind = select(JobWait.job_id).where(_is_awaited(job_ids)).cte("behind", recursive=True)
    behind = behind.union(select(JobWait.job_id).join(behind, JobWait.on_job_id == behind.c.job_id))
    query = select(Job.id).where(Job.id.in_(select(behind.c.job_id)))
    session.execute(query.order_by(*BY_AGE).with_for_update(of=Job))


def release_behind(session: Session, job_ids: Collection[str]) -> Sequence[str]:
    """Take away what waits for these jobs, which succeeded. Returns the jobs that wait for nothing else now."""
    directly = select(Job.id).where(Job.id.in_(select(JobWait.job_id).where(_is_awaited(job_ids))))
    locked = session.scalars(directly.order_by(*BY_AGE).with_for_update()).all()
    session.execute(delete(JobWait).where(_is_awaited(job_ids), _is_waiting(locked)))
    # A statement of its own, after the locks: it sees what an end at the same moment has taken away.
    waiting = set(session.scalars(select(JobWait.job_id).where(_is_waiting(locked))))
    return [job_id for job_id in locked if job_id not in waiting]


def directly_behind(session: Session, job_ids: Collection[str]) -> Mapping[str, str]:
    """The jobs that wait for these, each with one for which it waits."""
    rows = session.execute(select(JobWait.job_id, JobWait.on_job_id).where(_is_awaited(job_ids)))
    return {job_id: other for job_id, other in rows}  # noqa: C416 - a row is no pair to the type checker


def forget(session: Session, job_ids: Collection[str]) -> None:
    """Take away for what these jobs wait: they have ended."""
    session.execute(delete(JobWait).where(_is_waiting(job_ids)))


def overlooked(session: Session) -> Sequence[Job]:
    """Some jobs that have ended and are still waited for: a process of an older version ended them.

    They are locked until the commit.
    """
    awaited = select(Job).where(Job.id.in_(select(JobWait.on_job_id)), Job.status.in_(TERMINAL))
    return session.scalars(awaited.order_by(*BY_AGE).limit(_BATCH).with_for_update()).all()


def stranded(session: Session) -> Sequence[str]:
    """Some queued jobs that are said to wait, but for no job. They are locked until the commit."""
    has_rows = exists().where(JobWait.job_id == Job.id)
    query = select(Job.id).where(Job.status == Status.QUEUED, Job.waits_for_jobs, ~has_rows)
    return session.scalars(query.order_by(*BY_AGE).limit(_BATCH).with_for_update()).all()


def ended_text(job: Job) -> str:
    """How a job ended without success: `failed (out_of_memory)`, `was cancelled`."""
    if job.status is Status.FAILED:
        return f"failed ({job.end_reason})" if job.end_reason else "failed"
    return "was cancelled"


def _is_waiting(job_ids: Collection[str]) -> ColumnElement[bool]:
    return _among(JobWait.job_id, job_ids)


def _is_awaited(job_ids: Collection[str]) -> ColumnElement[bool]:
    return _among(JobWait.on_job_id, job_ids)


def _among(column: InstrumentedAttribute[str], job_ids: Collection[str]) -> ColumnElement[bool]:
    return column == func.any(cast(list(job_ids), ARRAY(String)))
