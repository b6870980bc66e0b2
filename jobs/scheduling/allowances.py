"""What the quotas of projects leave to a pass of the dispatcher: pure.

Read from the rows by `jobs.scheduling.quotas`; `jobs.scheduling.placement` asks it for each job, and
`jobs.scheduling.queue` says what it refused.
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
    """What a pass may still give to each project. The jobs of a project take it in their order in the queue.

    The first of them that is refused ends the project's turn: what comes free later is for that one, and not for
    smaller ones behind it that would always be quicker. For the same reason a job that is within the quota but finds
    no free slots has taken its part all the same.
    """

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = {one.project: one for one in quotas}
        self._left = {name: one.slots_left for name, one in self._quotas.items()}
        self.over = {name for name, left in self._left.items() if left == 0}  # whose jobs need not be looked at

    def take(self, project: str, slots: int) -> bool:
        """Whether the project's next job, of so many slots, is within the quota; then they are gone."""
        if project in self.over:
            return False
        left = self._left.get(project)
        if left is None:
            return True
        if self._quotas[project].is_less_than(slots):
            return False  # it waits for a larger quota, and the others do not wait for it
        if slots > left:
            self.over.add(project)
            return False
        self._left[project] = left - slots
        return True
