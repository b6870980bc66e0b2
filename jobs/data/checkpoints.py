"""The rows about the checkpoints of a job, for people who read them. Called by the api.

CheckpointNotFound      the job has no such checkpoint, or it has no such file
CheckpointsRemoved      a person removed the files of the job, or it ended long ago
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from jobs.copies.resuming import Key, SavedCheckpoint, checkpoints_among, saved_checkpoints
from jobs.data.artifacts import artifact_place
from jobs.lifecycle.store import get_job


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
