"""The names of pools: partitions of Slurm that take whole attempts, as hosts do. And what all jobs in Slurm ask for.

Pure.
"""

PREFIX = "slurm:"
POOL = rf"^{PREFIX}[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}$"  # the name of a pool, as a regular expression

LEAVING_S = 120  # before its time limit Slurm says so
_SAVING_S = 600  # what an attempt takes beside its own time limit


def is_pool(host: str) -> bool:
    """Whether a name is that of a pool, and not of a host."""
    return host.startswith(PREFIX)


def slurm_time_s(time_limit_s: float) -> float:
    """For how long an attempt with this time limit needs its nodes."""
    return time_limit_s + _SAVING_S


def slurm_minutes(seconds: float) -> int:
    """Slurm counts in minutes. A shorter time could end a job before it was asked to save."""
    return max(LEAVING_S // 60 + 1, -int(-seconds // 60))
