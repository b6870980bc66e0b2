"""How much a job keeps on its host, and how much it may keep. Used by the session and the checkpoints."""

import os
from pathlib import Path

from trainer.errors import StorageTooSmall

_GB = 1e9


def bytes_below(folder: Path) -> int:
    """The size of all files below a folder. A file with several names counts once; one that goes meanwhile does not."""
    sizes: dict[tuple[int, int], int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(path, name))
            except FileNotFoundError:
                continue
            sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


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
            f"keeping {fitting} of {keep} checkpoints: one has {_gigabytes(size_bytes)}, and a job may keep "
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
