"""The rows about the artifacts of jobs: which host has them, and when they were removed.

Called by api and worker.

ArtifactsRemoved    the job's artifacts were removed: a person did it, or the job ended long ago
ArtifactsInUse      the job has not ended, or another job starts from what it left
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import String, cast, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.lifecycle.history import last_lead_host
from jobs.lifecycle.named_jobs import checkpoints_needed, starting_from, weights_needed
from jobs.lifecycle.store import JobNotFound, touch
from jobs.model.states import TERMINAL

_BATCH_JOBS = 100


class ArtifactsRemoved(LookupError):
    """The job's artifacts were removed, by a person or because it ended long ago."""

    def __init__(self, job_id: str, removed_at: datetime) -> None:
        super().__init__(f"the artifacts of job {job_id} were removed on {removed_at:%Y-%m-%d}")


class ArtifactsInUse(ValueError):
    """The job has not ended, or another job starts from what it left."""


@dataclass(frozen=True)
class ArtifactPlace:
    """The host that has a job's artifacts, and when they were removed."""

    host: str | None  # the lead host of its newest attempt; None: none of its ranks has started
    removed_at: datetime | None


def artifact_place(session: Session, job_id: str) -> ArtifactPlace:
    """Where the job's artifacts are. Raises `JobNotFound`."""
    query = select(Job.artifacts_removed_at, last_lead_host().label("host")).where(Job.id == job_id)
    row = session.execute(query).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return ArtifactPlace(row.host, row.artifacts_removed_at)


def mark_artifacts_removed(session: Session, *, keep_days: float) -> bool:
    """Mark the artifacts of jobs that ended more than `keep_days` ago as removed. Returns False if there were none.

    The artifacts stay while another job that has not ended starts from them. A submission that names such a job locks
    its row (`jobs.lifecycle.admission`). So either the submission sees the mark, or this function sees the submission
    once the rows are locked.
    """
    due = (Job.ended_at < func.now() - timedelta(days=keep_days), Job.artifacts_removed_at.is_(None))
    query = select(Job.id).where(*due, Job.id.not_in(_started_from(session))).order_by(Job.ended_at)
    locked = session.scalars(query.limit(_BATCH_JOBS).with_for_update(skip_locked=True)).all()
    expired = sorted(set(locked) - _started_from(session))
    session.execute(
        update(Job)
        .where(Job.id == func.any(cast(expired, ARRAY(String))))
        .values(artifacts_removed_at=func.now(), artifact_bytes=0, revision=Job.revision + 1),
        execution_options={"synchronize_session": False},
    )
    return bool(expired)


def remove_artifacts(session: Session, job_id: str) -> bool:
    """Give up the artifacts and checkpoints of a job that has ended. Its hosts remove the files later.

    Repeating it changes nothing; returns whether it changed anything. Raises `JobNotFound`, `ArtifactsInUse`.
    """
    query = select(Job.status, Job.files_removed_at).where(Job.id == job_id)
    row = session.execute(query.with_for_update()).first()
    if row is None:
        raise JobNotFound(job_id)
    if row.status not in TERMINAL:
        raise ArtifactsInUse(f"job {job_id} is {row.status}: cancel it first, or wait until it has ended")
    starting = starting_from(session, [job_id])
    if starting is not None:
        raise ArtifactsInUse(f"{starting[1]}: cancel it first, or wait until it has ended")
    if row.files_removed_at is not None:
        return False
    removed_at = func.coalesce(Job.artifacts_removed_at, func.now())
    touch(
        session, job_id,
        files_removed_at=func.now(), artifacts_removed_at=removed_at, artifact_bytes=0, checkpoint_bytes=0,
    )  # fmt: skip
    return True


def _started_from(session: Session) -> set[str]:
    """The jobs from which a job starts or continues that has not ended."""
    return weights_needed(session) | checkpoints_needed(session)


def jobs_without_artifacts(session: Session, job_ids: Collection[str]) -> set[str]:
    """Those of the jobs whose artifacts are marked as removed. Their files may still exist."""
    among = Job.id == func.any(cast(list(job_ids), ARRAY(String)))
    return set(session.scalars(select(Job.id).where(among, Job.artifacts_removed_at.is_not(None))))
