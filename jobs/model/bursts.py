"""Bursts: jobs that one user submits one after the other, with the same number of GPUs. Pure.

Such jobs mostly take about as long as each other. In a public trace (Philly, 2017) 90 % of the jobs of one cluster come
in bursts of five and more. Within a burst the natural logarithm of the durations has a standard deviation of 0.23,
among all jobs 1.72. So once a few jobs of a burst have run for long, those that still wait are believed to do the same.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from jobs.model.attained_service import LEVELS_SLOT_S, level_of

GAP_S = 60.0  # a job that is submitted at most so long after the one before belongs to its burst
_FEWEST = 3  # jobs that say something of the others
_PART = 0.75  # and at least this part of those that can say it


def expected_level(entered: Sequence[int], ended_before: Sequence[int]) -> int:
    """The level at which the waiting jobs of a burst are believed to end.

    For each level above 0: how many jobs of the burst have entered it, and how many have ended before they did.
    """
    levels = range(len(LEVELS_SLOT_S), 0, -1)
    numbers = zip(levels, reversed(entered), reversed(ended_before), strict=True)
    return next((level for level, yes, no in numbers if yes >= _FEWEST and yes >= _PART * (yes + no)), 0)


class Bursts:
    """Tells which burst a submission belongs to. Submissions come by their times."""

    def __init__(self) -> None:
        self._newest: dict[Hashable, tuple[float, str]] = {}

    def burst_of(self, job_id: str, of: Hashable, submitted_s: float) -> str:
        """The burst of the next submission, named after its first job. `of`: whose it is, and with how many GPUs."""
        before_s, burst = self._newest.get(of, (-math.inf, job_id))
        if submitted_s - before_s > GAP_S:
            burst = job_id
        self._newest[of] = submitted_s, burst
        return burst


class BurstLevels:
    """Which levels the jobs of each burst have entered, and which ended before."""

    def __init__(self) -> None:
        self._entered: dict[str, list[set[str]]] = defaultdict(lambda: [set() for _ in LEVELS_SLOT_S])
        self._ended_before: dict[str, list[int]] = defaultdict(lambda: [0 for _ in LEVELS_SLOT_S])

    def note(self, burst: str, job_id: str, slot_s: float, *, has_ended: bool) -> bool:
        """Note what a job has attained. Returns whether it has entered a level since it was noted last."""
        level, is_news = level_of(slot_s), False
        for entered in self._entered[burst][:level]:
            is_news = is_news or job_id not in entered
            entered.add(job_id)
        if has_ended:
            for number in range(level, len(LEVELS_SLOT_S)):
                self._ended_before[burst][number] += 1
        return is_news

    def expected(self, burst: str) -> int:
        """The level at which its waiting jobs are believed to end."""
        return expected_level([len(entered) for entered in self._entered[burst]], self._ended_before[burst])
