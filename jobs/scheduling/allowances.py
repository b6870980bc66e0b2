"""The number of slots that a pass of the dispatcher may still give to each project, by its quota. Pure.

`jobs.scheduling.quotas` reads the quotas from the rows. `jobs.scheduling.placement` checks each job against them, and
`jobs.scheduling.queue` says which quota keeps a job waiting.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Quota:
    """The limits of a project and its usage. None means no limit."""

    project: str
    max_slots: int | None
    max_gpu_hours: float | None
    slots: int  # leased now
    gpu_hours: float  # in this calendar month (UTC), including running attempts
    renews_at: datetime  # when the next month begins
    max_storage_gb: float | None = None
    storage_gb: float = 0.0  # checkpoints and artifacts of all its jobs, in 10^9 bytes

    @property
    def is_used_up(self) -> bool:
        """Whether no more of the project's jobs are placed this month."""
        return self.max_gpu_hours is not None and self.gpu_hours >= self.max_gpu_hours

    @property
    def is_full(self) -> bool:
        """Whether its jobs keep so much that no new ones are placed. Jobs that keep files already go on."""
        return self.max_storage_gb is not None and self.storage_gb >= self.max_storage_gb

    def is_less_than(self, slots: int) -> bool:
        """Whether a job with this many slots could not run even if it were the project's only one."""
        return self.max_slots is not None and slots > self.max_slots

    @property
    def slots_left(self) -> int | None:
        """How many slots more the project may have now."""
        if self.is_used_up:
            return 0
        return None if self.max_slots is None else max(self.max_slots - self.slots, 0)


class Allowances:
    """The slots that a pass may still give to each project. Its jobs take them in the order of the queue.

    The first job that is refused ends the project's turn. Slots that become free later are for that job: otherwise
    smaller jobs after it would always take them first. For the same reason a job within the quota uses up its part of
    the quota even if it finds no free slots.
    """

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = {quota.project: quota for quota in quotas}
        self._left = {name: quota.slots_left for name, quota in self._quotas.items()}
        self.over = {name for name, slots in self._left.items() if slots == 0}  # projects that get nothing more
        self.full = {name for name, quota in self._quotas.items() if quota.is_full}  # their new jobs get nothing

    def take(self, project: str, slots: int, *, keeps_files: bool = False) -> bool:
        """Take slots for the project's next job. Returns False if its quotas do not allow so many.

        `keeps_files`: the job has begun and keeps files. It goes on even if the project is full, because nobody can
        remove its files before it ends.
        """
        if project in self.over or (project in self.full and not keeps_files):
            return False
        slots_left = self._left.get(project)
        if slots_left is None:
            return True
        if self._quotas[project].is_less_than(slots):
            return False  # it waits for a larger quota; the project's other jobs do not wait for it
        if slots > slots_left:
            self.over.add(project)
            return False
        self._left[project] = slots_left - slots
        return True
