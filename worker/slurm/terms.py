"""Keeps Slurm's jobs that wait at the present priority and time limit of their jobs, which people may change."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from jobs.runtime.settings import Settings
from jobs.scheduling.allocations import LiveAllocation
from worker.slurm import batch, commands
from worker.slurm.commands import SlurmRefused

_log = logging.getLogger(__name__)


class Terms:
    """What Slurm was told of each allocation. After a start of the worker that is unknown, so it is told once more.

    Where an option of the operator decides, Slurm is told nothing.
    """

    def __init__(self, settings: Settings) -> None:
        options = settings.slurm_options
        self._keeps_nice = any(option.startswith("--nice") for option in options)
        self._keeps_time = any(option.startswith(("--time=", "-t")) or option == "--time" for option in options)
        self._told: dict[int, dict[str, int]] = {}  # by allocation

    def keep(self, live: Sequence[LiveAllocation]) -> None:
        """Forget allocations that are not among these."""
        self._told = {one.id: self._told[one.id] for one in live if one.id in self._told}

    def are_old(self, allocation: LiveAllocation, limit: timedelta | None) -> bool:
        """Whether Slurm was told something else, or nothing. `limit` is that of the partition."""
        return self._told.get(allocation.id, {}) != self._terms(allocation, limit)

    def are_told(self, allocation: LiveAllocation, limit: timedelta | None) -> None:
        """Note that Slurm knows the terms of now."""
        self._told[allocation.id] = self._terms(allocation, limit)

    def tell(self, allocation: LiveAllocation, slurm_job: int, limit: timedelta | None) -> None:
        """Tell Slurm the terms of now. What it refuses stays as it was. Raises `SlurmAway`."""
        for name, value in self._terms(allocation, limit).items():
            try:
                commands.change(slurm_job, name, value)
            except SlurmRefused as refusal:
                tags = {"job": allocation.job_id, "attempt": allocation.number}
                _log.warning("Slurm refused %s=%d for %s: %s", name, value, allocation.name, refusal, extra=tags)
        self.are_told(allocation, limit)

    def _terms(self, allocation: LiveAllocation, limit: timedelta | None) -> dict[str, int]:
        """In the words of `scontrol update`."""
        nice = {} if self._keeps_nice else {"Nice": batch.nice(allocation.priority)}
        return nice | ({} if self._keeps_time else {"TimeLimit": batch.minutes(allocation.time_limit_s, limit)})
