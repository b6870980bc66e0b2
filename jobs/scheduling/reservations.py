"""Reservations for blocked jobs, and when slots become free. Pure; called by `jobs.scheduling.placement`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.scheduling.slots import Counts, Shares, SlotClass


@dataclass
class Reservation:
    """The slots kept for a blocked job, beginning `at_s` seconds from now (infinite: unknown).

    `spare` is the number of other slots that are free of each of these classes at that time. Other jobs may hold
    those for any time.
    """

    job_id: str
    shares: Counts
    at_s: float
    spare: dict[SlotClass, int]
    until_s: float  # when the job releases its slots, by its own estimate

    def binds(self, estimate_s: float | None) -> bool:
        """Whether a job with this estimate has to respect the reservation."""
        return math.isinf(self.at_s) or estimate_s is None or estimate_s > self.at_s

    def is_left_alone_by(self, shares: Shares) -> bool:
        """Whether a job with these slots would take none of the kept slots."""
        return all(taken <= self.spare.get(slots, taken) for slots, taken in shares)


@dataclass(frozen=True)
class Ending:
    """Slots that become free, and when."""

    in_s: float
    slots: Counts


def free_after(free: Counts, ended: Sequence[Counts]) -> dict[SlotClass, int]:
    """The free slots after those of the `ended` attempts have become free too."""
    future = dict(free)
    for counts in ended:
        for slots, count in counts.items():
            if slots in future:
                future[slots] += count
    return future


def or_infinite(seconds: float | None) -> float:
    """Seconds from now; infinite if they are unknown."""
    return math.inf if seconds is None else seconds
