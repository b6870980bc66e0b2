"""The names of pools: partitions of Slurm that take whole attempts, as hosts do. Pure."""

PREFIX = "slurm:"
POOL = rf"^{PREFIX}[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}$"  # the name of a pool, as a regular expression


def is_pool(host: str) -> bool:
    """Whether a name is that of a pool, and not of a host."""
    return host.startswith(PREFIX)
