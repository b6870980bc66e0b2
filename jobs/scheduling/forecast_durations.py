"""How long jobs are going to run, from how long others ran and from what is said of them. Pure.

`jobs.scheduling.forecast` asks for every job that has not ended.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, quantiles

from jobs.scheduling.contenders import Account

_ENOUGH = 20  # ended jobs of an account: then its own say more than those of all
_ENOUGH_RATIOS = 5  # likewise for estimates
_MOST_SPREAD = 10.0  # estimates of which the quarter points of the ratios differ by more say nothing
_UNKNOWN_S = 600.0  # if no job has ended yet, half of all jobs are believed to run so long
_LEAST_S = 1.0


class Durations:
    """The distribution of durations, by the product-limit estimator (Kaplan and Meier, 1958).

    Jobs that have not ended count too: they run longer than they have run. Otherwise a service that is new, or has
    long jobs, would believe all jobs to be short.
    """

    def __init__(self, ended_s: Iterable[float], going_on_s: Iterable[float] = ()) -> None:
        rows = sorted([*((ran_s, True) for ran_s in ended_s), *((ran_s, False) for ran_s in going_on_s)])
        self._times_s: list[float] = []
        self._surviving: list[float] = []  # the part of all jobs that run longer than each of these times
        part = 1.0
        for number, (ran_s, has_ended) in enumerate(rows):
            if has_ended:
                part *= 1.0 - 1.0 / (len(rows) - number)
                self._times_s.append(ran_s)
                self._surviving.append(part)

    def left_s(self, ran_s: float) -> float:
        """How long a job that has run so long is going to run: half of those that ran as long ran longer than that.

        Where the distribution ends, a job runs as long again as it has run: its tail is that of a power law.
        """
        half = self._part_beyond(ran_s) / 2
        place = bisect_left(self._surviving, -half, lo=bisect_right(self._times_s, ran_s), key=lambda part: -part)
        if place < len(self._times_s):
            return max(self._times_s[place] - ran_s, _LEAST_S)
        known_s = max(ran_s, self._times_s[-1] if self._times_s else _UNKNOWN_S / 2)
        return known_s * self._part_beyond(known_s) / half - ran_s if half else known_s

    def _part_beyond(self, ran_s: float) -> float:
        place = bisect_right(self._times_s, ran_s)
        return self._surviving[place - 1] if place else 1.0


class EstimateKind(StrEnum):
    """Where an estimate of a whole run comes from."""

    RUNS = "runs"  # the median of the last runs like it
    LIMIT = "limit"  # the time limit that a person gave


@dataclass(frozen=True)
class Judged:
    """An estimate of a job that has ended, and how many times as long it ran."""

    kind: EstimateKind
    account: Account
    ratio: float


class Corrections:
    """By how much estimates are wrong: by kind, of one account if enough of its jobs have ended, else of all."""

    def __init__(self, judged: Iterable[Judged]) -> None:
        ratios: dict[tuple[EstimateKind, Account | None], list[float]] = defaultdict(list)
        for one in judged:
            ratios[one.kind, one.account].append(one.ratio)
            ratios[one.kind, None].append(one.ratio)
        self._factors = {key: _factor(found) for key, found in ratios.items() if len(found) >= _ENOUGH_RATIOS}

    def factor(self, kind: EstimateKind, account: Account) -> float | None:
        """What to multiply an estimate with. None: such estimates say nothing, or nobody knows yet."""
        of_all = self._factors.get((kind, None))
        return self._factors.get((kind, account), of_all)


def _factor(ratios: Sequence[float]) -> float | None:
    """The median, unless they differ too much."""
    low, _, high = quantiles(ratios, n=4)
    return median(ratios) if high <= _MOST_SPREAD * low else None


@dataclass(frozen=True)
class Known:
    """What is known of a job that has not ended. `eta_s` says its attempt: so long it still runs."""

    account: Account
    ran_s: float
    eta_s: float | None = None
    time_limit_s: float | None = None
    runs_s: Sequence[float] = ()  # durations of the last runs like it


class History:
    """What ended jobs tell about those that have not ended."""

    def __init__(
        self, ended_s: Mapping[Account, Sequence[float]], going_on: Iterable[Known], judged: Iterable[Judged] = ()
    ) -> None:
        """`ended_s` are the times that jobs held slots, by account."""
        ran_s: dict[Account, list[float]] = defaultdict(list)
        for known in going_on:
            if known.ran_s > 0:
                ran_s[known.account].append(known.ran_s)
        self._of_all = Durations(_flat(ended_s), _flat(ran_s))
        self._of_account = {
            account: Durations(own, ran_s[account]) for account, own in ended_s.items() if len(own) >= _ENOUGH
        }
        self._corrections = Corrections(judged)

    def left_s(self, job: Known) -> float:
        """How long a job is going to run, from now on or from its start.

        By the first of these that is known: what its attempt says; the runs like it; its time limit; how long other
        jobs ran that ran as long. The second and the third are corrected. Nothing is believed of them once the job has
        run longer.
        """
        if job.eta_s is not None:
            return max(job.eta_s, _LEAST_S)
        for kind, estimate_s in (
            (EstimateKind.RUNS, median(job.runs_s or [0.0])),
            (EstimateKind.LIMIT, job.time_limit_s),
        ):
            factor = self._corrections.factor(kind, job.account)
            if estimate_s and factor is None and kind is EstimateKind.RUNS:
                factor = 1.0
            if estimate_s and factor is not None and estimate_s * factor > job.ran_s:
                return max(estimate_s * factor - job.ran_s, _LEAST_S)
        left_s = self._of_account.get(job.account, self._of_all).left_s(job.ran_s)
        if job.time_limit_s is None:
            return left_s
        return max(min(left_s, job.time_limit_s - job.ran_s), _LEAST_S)


def _flat(by_account: Mapping[Account, Sequence[float]]) -> Iterable[float]:
    return (value for values in by_account.values() for value in values)
