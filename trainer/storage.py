"""How much a job may keep on its host. Used by the session and the checkpoints."""

from pathlib import Path

from jobs.runtime.files import bytes_below
from trainer.errors import StorageTooSmall

_GB = 1e9


def fitting_checkpoints(
    job_dir: Path, own_folder: Path, *, keep: int, size_bytes: int, artifact_bytes: int, limit_bytes: int | None
) -> int:
    """How many checkpoints of this size the job may keep in a folder: `keep`, or fewer, and at least 1.

    There is room for the artifacts that it leaves at its end. Temporary files, which go with the attempt, do not count.
    """
    if limit_bytes is None:
        return keep
    temporary_bytes = sum(map(bytes_below, job_dir.glob("attempt-*/tmp")))
    others_bytes = bytes_below(job_dir) - bytes_below(own_folder) - temporary_bytes + artifact_bytes
    fitting = max(1, min(keep, (limit_bytes - others_bytes) // max(size_bytes, 1)))
    if fitting < keep:
        print(
            f"warning: keeping {fitting} of {keep} checkpoints: one has {_gigabytes(size_bytes)}, and a job may keep "
            f"{_gigabytes(limit_bytes)} on a host (HORA_MAX_JOB_STORAGE_GB)",
            flush=True,
        )
    return fitting


def require_storage(*, checkpoint_bytes: int, artifact_bytes: int, limit_bytes: int | None) -> None:
    """Raise `StorageTooSmall` if one checkpoint and the artifacts exceed the limit: before training, not after it."""
    needed_bytes = checkpoint_bytes + artifact_bytes
    if limit_bytes is not None and needed_bytes > limit_bytes:
        raise StorageTooSmall(
            f"one checkpoint and the artifacts of this job have {_gigabytes(needed_bytes)}, and a job may keep "
            f"{_gigabytes(limit_bytes)} on a host: choose a smaller network, or ask the operator for a larger "
            "HORA_MAX_JOB_STORAGE_GB"
        )


def _gigabytes(size_bytes: int) -> str:
    size_gb = size_bytes / _GB
    return f"{size_gb:,.0f} GB" if size_gb >= 1000 else f"{size_gb:.3g} GB"
