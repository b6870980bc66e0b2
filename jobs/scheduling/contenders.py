"""Who contends for slots: the jobs that wait, and the attempts that hold some. Pure."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jobs.scheduling.slots import Counts, SlotRequest

Order = tuple[int, float, str]  # the sort key of a job: negative priority, time of creation, id


class Account(NamedTuple):
    """Whose usage a job counts for: a user's in a project."""

    project: str
    user: str


NOBODY = Account("", "")


@dataclass(frozen=True)
class QueuedJob:
    """A queued job. `estimate_s` is the longest time that it is expected to hold its slots.

    `keeps_files`: an earlier attempt left files that count against the quota of its project. `level` is that of its
    attained service, `waited_s` the time since it last began to wait: both for `jobs.scheduling.fair_queue`.
    """

    job_id: str
    order: Order
    request: SlotRequest
    estimate_s: float | None = None
    account: Account = NOBODY
    keeps_files: bool = False
    level: int = 0
    waited_s: float = 0.0

    @property
    def priority(self) -> int:
        """Jobs with a higher priority come first."""
        return -self.order[0]

    @property
    def project(self) -> str:
        """Its project."""
        return self.account.project


@dataclass(frozen=True)
class LiveAttempt:
    """An attempt that holds slots, and how many of each class become free when it ends.

    `leaving`: it is already ending, so its slots become free soon. `overdue`: it passed a waiting job, and should have
    ended by now. `level` is that of the service that its job has attained until now. `undisturbed_s`: for so long it
    is not preempted for a job of its own priority. `stored_level` is the one that its job's row has.
    """

    attempt_id: int
    order: Order  # the sort key of its job
    slots: Counts
    ends_in_s: float | None = None  # None: unknown
    leaving: bool = False
    overdue: bool = False
    account: Account = NOBODY
    level: int = 0
    undisturbed_s: float = 0.0
    stored_level: int = 0

    @cached_property
    def gpus(self) -> int:
        """How many slots it holds."""
        return sum(self.slots.values())

    @property
    def job_id(self) -> str:
        """Its job."""
        return self.order[2]

    @property
    def kind(self) -> str:
        """Of its slots: gpu or cpu."""
        return next(iter(self.slots)).kind
