"""Policies of other schedulers, to compare Hora's queue with: first come first served, first fit, EASY and SJF.

EASY and SJF are told how long every job takes, to the second. Nobody knows that in practice: they are bounds.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter

from jobs.scheduling.fitting import Cluster
from jobs.scheduling.reservations import free_after
from jobs.scheduling.simulation import SimulatedJob, Simulation, Slots, counts_of
from jobs.scheduling.slots import Counts, HostSlots, Shares, SlotClass, SlotRequest

_Key = tuple[float, float, str]


class Sorted:
    """Jobs start in one sequence, and none makes room. `passes`: a job that does not fit lets later ones pass."""

    def __init__(self, key: Callable[[SimulatedJob], _Key], *, passes: bool) -> None:
        self._key = key
        self._passes = passes
        self._waiting: list[tuple[_Key, SimulatedJob]] = []

    def add(self, job: SimulatedJob) -> None:
        """A job begins to wait."""
        insort(self._waiting, (self._key(job), job), key=itemgetter(0))

    def remove(self, job: SimulatedJob) -> None:
        """A job got slots."""
        del self._waiting[bisect_left(self._waiting, self._key(job), key=itemgetter(0))]

    def released(self, job: SimulatedJob, now_s: float) -> None:
        """Nothing depends on it."""

    def looks_again_in_s(self, simulation: Simulation) -> float:
        """Nothing changes while nothing happens."""
        return math.inf

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        """Start all that fit."""
        room = _Room(simulation.hosts)
        unfit: set[int] = set()
        started = {}
        for _, job in self._waiting:
            if room.is_full():
                break
            if job.gpus in unfit:
                continue
            shares = room.fit(job.gpus)
            if shares is not None:
                started[job.job_id] = room.take(shares)
            elif self._passes:
                unfit.add(job.gpus)
            else:
                break
        return started, ()


class Easy(Sorted):
    """First come first served, but later jobs start first if they do not delay the first that does not fit."""

    def __init__(self) -> None:
        super().__init__(by_age, passes=False)

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        """Start all that fit, then those that end before the first blocked job can start, or leave it room."""
        first, _ = super().decide(simulation)
        started = dict(first)
        blocked = next((job for _, job in self._waiting if job.job_id not in started), None)
        room = _Room(simulation.hosts)
        endings = [(job.ends_s - simulation.now_s, job.counts) for job in simulation.live.values()]
        for job_id, taken in started.items():
            room.leave_out(taken)
            endings.append((simulation.jobs[job_id].left_s, counts_of(taken)))
        if blocked is None or room.is_full():
            return started, ()
        shadow_s, spare = room.shadow(blocked.gpus, sorted(endings, key=itemgetter(0)))
        unfit: set[tuple[int, bool]] = set()
        for _, job in self._waiting:
            if room.is_full():
                break
            is_short = job.left_s <= shadow_s
            if job is blocked or job.job_id in started or (job.gpus, is_short) in unfit:
                continue
            shares = room.fit(job.gpus, None if is_short else spare)
            if shares is None:
                unfit.add((job.gpus, is_short))
                continue
            started[job.job_id] = room.take(shares)
            if not is_short:
                for slots, count in shares:
                    spare[slots] -= count
        return started, ()


def by_age(job: SimulatedJob) -> _Key:
    """The sort key of first come first served."""
    return job.submitted_s, 0.0, job.job_id


def by_duration(job: SimulatedJob) -> _Key:
    """The sort key of shortest job first."""
    return job.duration_s, job.submitted_s, job.job_id


class _Room:
    """The free slots, while jobs take some."""

    def __init__(self, hosts: Iterable[HostSlots]) -> None:
        self._cluster = Cluster(hosts)
        self._free = dict(self._cluster.free)
        self._indices = {one.of: one.free for host in self._cluster.hosts.values() for one in host.classes}

    def is_full(self) -> bool:
        """Whether no slot is free."""
        return not any(self._free.values())

    def fit(self, gpus: int, spare: Counts | None = None) -> Shares | None:
        """The slots that a job would get; with `spare`, of these alone."""
        free = self._free if spare is None else {of: min(count, spare[of]) for of, count in self._free.items()}
        return self._cluster.fit(SlotRequest(gpus), free)

    def take(self, shares: Shares) -> Slots:
        """Take these slots, the lowest indices first."""
        slots = tuple((of, self._indices[of][:count]) for of, count in shares)
        self.leave_out(slots)
        return slots

    def leave_out(self, slots: Slots) -> None:
        """Take exactly these slots."""
        for of, indices in slots:
            self._free[of] -= len(indices)
            self._indices[of] = tuple(index for index in self._indices[of] if index not in indices)

    def shadow(self, gpus: int, endings: Sequence[tuple[float, Counts]]) -> tuple[float, dict[SlotClass, int]]:
        """When a job can start, and the slots that are left over then, as these jobs end."""
        for number in range(1, len(endings) + 1):
            free = free_after(self._free, [counts for _, counts in endings[:number]])
            shares = self._cluster.fit(SlotRequest(gpus), free)
            if shares is not None:
                return endings[number - 1][0], {**free, **{of: free[of] - count for of, count in shares}}
        return math.inf, dict(self._free)
