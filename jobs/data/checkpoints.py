"""The rows about the checkpoints of a job, for people who read them or continue from one. Called by the api.

CheckpointNotFound      the job has no such checkpoint, or it has no such file
CheckpointsRemoved      a person removed the files of the job, or it ended long ago
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, literal_column, select
from sqlalchemy.orm import Session

from jobs.copies.resuming import Key, SavedCheckpoint, checkpoints_among, saved_checkpoints
from jobs.data.artifacts import artifact_place
from jobs.db.tables import Job, JobEvent
from jobs.db.tables.work import STEP_OF_EVENT
from jobs.lifecycle.store import get_job
from jobs.model.states import EventKind


class CheckpointNotFound(LookupError):
    """The job has no such checkpoint, or it has no such file."""


class CheckpointsRemoved(LookupError):
    """The checkpoints of the job were removed, by a person or because it ended long ago."""

    def __init__(self, job_id: str, removed_at: datetime) -> None:
        super().__init__(f"the checkpoints of job {job_id} were removed on {removed_at:%Y-%m-%d}")


@dataclass(frozen=True)
class CheckpointRows:
    """What the rows say of the checkpoints of a job."""

    host: str | None  # the lead host of its newest attempt; None: none of its ranks has started
    removed_at: datetime | None
    saved: Sequence[SavedCheckpoint]  # some that no later attempt trained again, the newest first


def checkpoint_rows(session: Session, job_id: str, keys: Collection[Key] | None = None) -> CheckpointRows:
    """What the rows say of the checkpoints of a job with these keys; None: of the newest ones. Raises `JobNotFound`."""
    job = get_job(session, job_id)
    removed_at = job.files_removed_at or job.artifacts_removed_at
    saved: Sequence[SavedCheckpoint] = ()
    if removed_at is None:
        saved = saved_checkpoints(session, job) if keys is None else checkpoints_among(session, job, keys)
    return CheckpointRows(artifact_place(session, job_id).host, removed_at, saved)


def kept_checkpoints(session: Session, job: Job, in_store: Collection[Key]) -> list[SavedCheckpoint]:
    """The checkpoints of an ended job from which another can continue, the newest first.

    The store has those of `in_store`. A host has the newest ones, unless it said that it removed them.
    """
    on_disk = [] if job.checkpoint_bytes == 0 else saved_checkpoints(session, job)[: job.spec["checkpoint"]["keep"]]
    kept = {one.key: one for one in (*on_disk, *checkpoints_among(session, job, in_store))}
    return sorted(kept.values(), key=lambda one: (one.step, one.attempt), reverse=True)


def ends_an_epoch(session: Session, job_id: str, step: int) -> bool:
    """Whether an epoch of a job ended with this step. Otherwise a checkpoint there is from the middle of its epoch."""
    ended = (JobEvent.job_id == job_id, JobEvent.kind == EventKind.EPOCH_ENDED)
    at_step = literal_column(STEP_OF_EVENT, BigInteger) == step
    return session.scalar(select(JobEvent.id).where(*ended, at_step).limit(1)) is not None
