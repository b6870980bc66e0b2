"""What the database knows of the artifacts of jobs: where they lie, and that they are gone. Called by api and worker.

ArtifactsRemoved    the job ended so long ago that what it left was removed
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import String, cast, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job
from jobs.lifecycle.store import JobNotFound
from jobs.model.states import TERMINAL, Status

_BATCH_JOBS = 100
_LIVE = sorted(set(Status) - TERMINAL)


class ArtifactsRemoved(LookupError):
    """The job's artifacts are not kept any longer."""

    def __init__(self, job_id: str, removed_at: datetime) -> None:
        super().__init__(f"what job {job_id} left was removed on {removed_at:%Y-%m-%d}: it had been kept long enough")


@dataclass(frozen=True)
class Whereabouts:
    """Where a job leaves its artifacts."""

    host: str | None  # the lead host of its newest attempt; None: no rank of it has started
    removed_at: datetime | None


def whereabouts(session: Session, job_id: str) -> Whereabouts:
    """Where the job's artifacts lie. Raises `JobNotFound`."""
    newest = select(Attempt.host).where(Attempt.job_id == Job.id, Attempt.started_at.is_not(None))
    host = newest.order_by(Attempt.number.desc()).limit(1).scalar_subquery()
    row = session.execute(select(Job.artifacts_removed_at, host.label("host")).where(Job.id == job_id)).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return Whereabouts(row.host, row.artifacts_removed_at)


def give_up(session: Session, *, keep_days: float) -> bool:
    """Note of jobs that ended longer ago than that that their artifacts go; False when none was to be noted.

    Those stay that a job starts from which has not ended. A submission that names such a job holds its row
    (`jobs.lifecycle.admission`): so it either sees the note, or is seen here once the rows are locked.
    """
    due = (Job.ended_at < func.now() - timedelta(days=keep_days), Job.artifacts_removed_at.is_(None))
    query = select(Job.id).where(*due, Job.id.not_in(_started_from(session))).order_by(Job.ended_at)
    locked = session.scalars(query.limit(_BATCH_JOBS).with_for_update(skip_locked=True)).all()
    going = sorted(set(locked) - _started_from(session))
    session.execute(
        update(Job)
        .where(Job.id == func.any(cast(going, ARRAY(String))))
        .values(artifacts_removed_at=func.now(), revision=Job.revision + 1),
        execution_options={"synchronize_session": False},
    )
    return bool(going)


def _started_from(session: Session) -> set[str]:
    """The jobs whose weights those start from that have not ended."""
    weights = Job.spec["model"]["weights"].astext
    named = session.scalars(select(weights).where(Job.status.in_(_LIVE), weights.startswith("job:")))
    return {text.removeprefix("job:") for text in named}


def given_up(session: Session, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs whose artifacts are to be removed, or were."""
    known = Job.id == func.any(cast(list(job_ids), ARRAY(String)))
    return set(session.scalars(select(Job.id).where(known, Job.artifacts_removed_at.is_not(None))))
