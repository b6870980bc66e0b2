"""How long jobs are going to run, from how long others ran and from what is said of them. Pure.

`worker.forecaster` and `bench.queue_starts` ask it for all jobs that have not ended.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from jobs.scheduling.contenders import Account

_GOLDEN = (math.sqrt(5) - 1) / 2
_COHORT = 200  # so many jobs that were submitted at about the same time are compared
_APART = 40  # cohorts begin so many jobs apart, so that few have to be made
_ENOUGH = 20  # ended jobs of an account: then it is compared with itself alone
_ENOUGH_LONGER = 5  # ended jobs of a cohort that ran longer than the one in question
_ENOUGH_RATIOS = 5  # ended jobs with an estimate
_UNKNOWN_S = 600.0  # if no job has ended yet, half of all jobs are believed to run so long
_MOST_TIMES = 50.0  # nobody is believed to run longer than so many times the longest
_LEAST_S = 1.0


class Survival:
    """How long things last, by the product-limit estimator (Kaplan and Meier, 1958).

    Those that have not ended count too: they last longer than they have lasted. Otherwise a service that is new, or has
    long jobs, would believe all jobs to be short.
    """

    def __init__(self, ended: Iterable[float], going_on: Iterable[float] = ()) -> None:
        rows = sorted([*((lasted, False) for lasted in ended), *((lasted, True) for lasted in going_on)])
        self._times: list[float] = []
        self._parts: list[float] = []  # of all, those that last longer than each of these times
        part = 1.0
        for number, (lasted, goes_on) in enumerate(rows):
            if not goes_on:
                part *= 1.0 - 1.0 / (len(rows) - number)
                self._times.append(lasted)
                self._parts.append(part)

    def longer_than(self, age: float) -> int:
        """How many ended that had lasted longer."""
        return len(self._times) - bisect_right(self._times, age)

    def left(self, age: float, part: float, *, first: float) -> float:
        """How much longer it lasts: of those that lasted as long, this `part` lasted longer than that.

        Beyond the longest that is known, the part that lasts t times as long is 1 / t. `first` is the median as long as
        nothing has ended.
        """
        beyond = part * self._part_beyond(age)
        place = bisect_left(self._parts, -beyond, lo=bisect_right(self._times, age), key=lambda longer: -longer)
        if place < len(self._times):
            return self._times[place] - age
        longest = max(age, self._times[-1] if self._times else first / 2)
        times = self._part_beyond(longest) / beyond if beyond else 1.0 / part
        return longest * min(times, _MOST_TIMES) - age

    def spread(self) -> float:
        """How many times as long three quarters of them last as one quarter does."""
        return self.left(0.0, 0.25, first=1.0) / (self.left(0.0, 0.75, first=1.0) or 1e-9)

    def _part_beyond(self, age: float) -> float:
        place = bisect_right(self._times, age)
        return self._parts[place - 1] if place else 1.0


@dataclass(frozen=True)
class Run:
    """A job that was submitted lately, how long it has held slots, and what was said of that before.

    `runs_s` are durations of the last runs like it, without itself.
    """

    account: Account
    submitted_s: float
    ran_s: float
    has_ended: bool = False
    eta_s: float | None = None  # what its attempt says: so long it still runs
    time_limit_s: float | None = None
    runs_s: Sequence[float] = ()

    @property
    def estimates_s(self) -> Mapping[str, float]:
        """How long it was believed to run, by who said so. The best comes first."""
        named = {"runs": median(self.runs_s) if self.runs_s else 0.0, "limit": self.time_limit_s or 0.0}
        return {name: estimate_s for name, estimate_s in named.items() if estimate_s > 0}


class History:
    """What the jobs that were submitted lately tell about those that have not ended."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = sorted((run for run in runs if run.ran_s > 0), key=lambda run: run.submitted_s)
        self._of_account: dict[Account, list[Run]] = defaultdict(list)
        for run in self._runs:
            self._of_account[run.account].append(run)
        enough = [account for account, own in self._of_account.items() if sum(run.has_ended for run in own) >= _ENOUGH]
        self._lanes = {account: self._of_account[account] for account in enough}
        self._all = _survival(self._runs)
        self._cohorts: dict[tuple[Account | None, int], Survival] = {}
        self._ratios = {name: self._ratios_of(name) for name in ("runs", "limit")}

    def left_s(self, jobs: Iterable[Run]) -> list[float]:
        """How long each of these jobs is going to run from now on, or from its start.

        One is believed to end early, another late, as the durations of the others are spread: the next slots come free
        by those that end early.
        """
        return [
            max(self._left_s(job, 1.0 - (number + 0.5) * _GOLDEN % 1.0), _LEAST_S) for number, job in enumerate(jobs)
        ]

    def _left_s(self, job: Run, part: float) -> float:
        """By the first of these that is known: what it says, an estimate that tells more than nothing, other jobs."""
        if job.eta_s is not None:
            return job.eta_s
        others = self._others(job)
        for name, estimate_s in job.estimates_s.items():
            ratios = self._ratios[name]
            if ratios is not None and ratios.spread() < others.spread():
                return ratios.left(job.ran_s / estimate_s, part, first=1.0) * estimate_s
            if ratios is None and name == "runs" and job.ran_s < estimate_s:
                return estimate_s - job.ran_s
        left_s = others.left(job.ran_s, part, first=_UNKNOWN_S)
        return left_s if job.time_limit_s is None else min(left_s, job.time_limit_s - job.ran_s)

    def _others(self, job: Run) -> Survival:
        """The jobs to compare it with: those submitted at about the same time, by its account if they are enough."""
        account = job.account if job.account in self._lanes else None
        lane = self._runs if account is None else self._lanes[account]
        place = bisect_left(lane, job.submitted_s, key=lambda run: run.submitted_s) // _APART * _APART
        key = account, place
        if key not in self._cohorts:
            begin = max(min(place - _COHORT // 2, len(lane) - _COHORT), 0)
            self._cohorts[key] = _survival(lane[begin : begin + _COHORT])
        cohort = self._cohorts[key]
        return cohort if cohort.longer_than(job.ran_s) >= _ENOUGH_LONGER else self._all

    def _ratios_of(self, name: str) -> Survival | None:
        """How many times as long jobs run as was estimated. None: too few of them have ended."""
        estimated = [(run, run.estimates_s[name]) for run in self._runs if name in run.estimates_s]
        ended = [run.ran_s / estimate_s for run, estimate_s in estimated if run.has_ended]
        going_on = [run.ran_s / estimate_s for run, estimate_s in estimated if not run.has_ended]
        return Survival(ended, going_on) if len(ended) >= _ENOUGH_RATIOS else None


def _survival(runs: Sequence[Run]) -> Survival:
    return Survival((run.ran_s for run in runs if run.has_ended), (run.ran_s for run in runs if not run.has_ended))
