"""How many slots a pass of the dispatcher may still give to each project, by its quota. Pure.

`jobs.scheduling.quotas` reads the quotas from the rows. `jobs.scheduling.placement` checks each job against them, and
`jobs.scheduling.queue` says which quota keeps a job waiting.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Quota:
    """The limits of a project, None where there is none, and what counts against them."""

    project: str
    max_slots: int | None
    max_gpu_hours: float | None
    slots: int  # leased now
    gpu_hours: float  # of this calendar month in UTC, what runs included
    renews_at: datetime  # when the next month begins

    @property
    def is_used_up(self) -> bool:
        """Whether nothing new of the project is placed this month."""
        return self.max_gpu_hours is not None and self.gpu_hours >= self.max_gpu_hours

    def is_less_than(self, slots: int) -> bool:
        """Whether a job of so many slots could not run even if it were the project's only one."""
        return self.max_slots is not None and slots > self.max_slots

    @property
    def slots_left(self) -> int | None:
        """How many slots more the project may have now."""
        if self.is_used_up:
            return 0
        return None if self.max_slots is None else max(self.max_slots - self.slots, 0)


class Allowances:
    """What a pass may still give to each project. The jobs of a project take it in the order of the queue.

    The first job that is refused ends the project's turn: slots that come free later are for that job, and not for
    smaller ones behind it that would always be quicker. For the same reason a job that is within the quota takes its
    part even if it finds no free slots.
    """

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = {quota.project: quota for quota in quotas}
        self._left = {name: quota.slots_left for name, quota in self._quotas.items()}
        self.over = {name for name, slots in self._left.items() if slots == 0}  # projects that get nothing more

    def take(self, project: str, slots: int) -> bool:
        """Take slots for the project's next job; False where its quota does not allow so many."""
        if project in self.over:
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
