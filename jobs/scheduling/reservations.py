"""What a pass keeps for a blocked job, and when slots come free. Pure; called by `jobs.scheduling.placement`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.scheduling.fitting import Counts, Shares


@dataclass
class Reservation:
    """The slots kept for a blocked job, from `at_s` seconds from now on (infinite: nobody knows from when).

    `spare` is what else is free on each of these hosts at that time: other jobs may hold that for as long as they like.
    """

    job_id: str
    shares: Mapping[str, int]
    at_s: float
    spare: dict[str, int]
    until_s: float  # when it gives its slots back, by the job's own estimate

    def binds(self, estimate_s: float | None) -> bool:
        """Whether a job that takes so long has to leave it alone."""
        return math.isinf(self.at_s) or estimate_s is None or estimate_s > self.at_s

    def is_left_alone_by(self, shares: Shares) -> bool:
        """Whether a job that takes these slots takes none of those that are kept."""
        return all(taken <= self.spare.get(host, taken) for host, taken in shares)


@dataclass(frozen=True)
class Ending:
    """Slots that come free."""

    in_s: float
    slots: Counts


def free_after(free: Counts, ended: Sequence[Counts]) -> dict[str, int]:
    """The free slots once those of the `ended` attempts have come free too."""
    future = dict(free)
    for slots in ended:
        for host, count in slots.items():
            if host in future:
                future[host] += count
    return future


def or_infinite(seconds: float | None) -> float:
    """A time from now; infinite where nobody knows it."""
    return math.inf if seconds is None else seconds
