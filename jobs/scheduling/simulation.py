"""Jobs on hosts in simulated time, from an empty queue or from any state. Pure.

A `Scheduler` decides after every submission, end and save. `jobs.scheduling.simulated_pass` decides as the dispatcher
does; `bench.queue_policies` has other schedulers. `bench.queue` replays traces with it, and `jobs.scheduling.forecast`
finds out when queued jobs are expected to start.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Protocol

from jobs.model.attained_service import level_of
from jobs.scheduling.contenders import Account, Order
from jobs.scheduling.slots import ClassSlots, Counts, HostSlots, SlotClass, SlotRequest

Slots = tuple[tuple[SlotClass, tuple[int, ...]], ...]  # the indices of slots, by class

SOON_S = 1e-3  # times closer than this are one
_OF_SAVING = 0.25  # of what a preemption costs: the slots are held so long until the job has saved


@dataclass(eq=False)
class SimulatedJob:
    """A job with the time for which it trains, and what became of it. Times are in seconds from any zero.

    `request` is what it asks for; None: so many GPUs. It trains `cost_s` seconds longer for each of its preemptions;
    infinite: it cannot save, so it begins anew. `estimate_s` is the longest time that the dispatcher believes an
    attempt to take. `says_end`: its attempts say when they end. `burst`: of which it is one, empty for none.
    `least_level`: its level is this at least.

    `left_s`: how long it has still to train, with what its preemptions cost. `slot_s`: slot-seconds of its attempts
    that have ended. A simulation that begins with a live attempt is told its `slots`, `begun_s` and `attempt_id`.
    """

    job_id: str
    submitted_s: float
    duration_s: float
    gpus: int
    user: str = ""
    project: str = ""
    priority: int = 50
    request: SlotRequest | None = None
    cost_s: float = 60.0
    estimate_s: float | None = None
    says_end: bool = False
    keeps_files: bool = False
    burst: str = ""
    least_level: int = 0
    ended_s: float = math.nan
    preemptions: int = 0
    left_s: float = field(init=False)
    slot_s: float = 0.0
    queued_s: float = field(init=False)  # when it last began to wait
    first_start_s: float = math.nan  # in this simulation
    attempt_id: int = 0
    begun_s: float = 0.0  # of its last attempt
    waited_s: float = 0.0  # before its last attempt
    slots: Slots = ()  # empty: it holds none
    leaving: bool = False
    plan: int = 0  # events of earlier plans are void

    def __post_init__(self) -> None:
        """All is left to do, and it waits since its submission."""
        self.left_s = self.duration_s
        self.queued_s = self.submitted_s

    @property
    def order(self) -> Order:
        """The sort key of the queue by age."""
        return -self.priority, self.submitted_s, self.job_id

    @property
    def account(self) -> Account:
        """Whose usage it counts for."""
        return Account(self.project, self.user)

    @property
    def counts(self) -> Counts:
        """The slots that it holds, by class."""
        return counts_of(self.slots)

    @property
    def wait_s(self) -> float:
        """All time that it did not train: what its preemptions cost counts too."""
        return self.ended_s - self.submitted_s - self.duration_s

    @property
    def ends_s(self) -> float:
        """When its attempt ends if it is left alone."""
        return self.begun_s + self.left_s

    def believed(self, left_s: float, now_s: float) -> "SimulatedJob":
        """A copy as it is now, of which somebody believes that it still runs so long."""
        copied = copy(self)
        copied.left_s = left_s + self.held_s(now_s)
        copied.first_start_s, copied.plan = math.nan, 0
        return copied

    def level(self, now_s: float) -> int:
        """The level of its attained service."""
        return max(level_of(self.slot_s + self.held_s(now_s) * self.gpus), self.least_level)

    def held_s(self, now_s: float) -> float:
        """How long it has held its slots."""
        return now_s - self.begun_s if self.slots else 0.0

    def ran_s(self, now_s: float) -> float:
        """How long it has held slots in all its attempts."""
        return self.slot_s / self.gpus + self.held_s(now_s)


class Scheduler(Protocol):
    """Decides which jobs start and which make room."""

    def add(self, job: SimulatedJob) -> None:
        """A job begins to wait."""

    def remove(self, job: SimulatedJob) -> None:
        """A job got slots."""

    def released(self, job: SimulatedJob, now_s: float) -> None:
        """An attempt releases its slots, which it has held until now."""

    def decide(self, simulation: "Simulation") -> tuple[Mapping[str, Slots], Sequence[int]]:
        """The slots of the jobs that start now, and the attempts that make room."""

    def looks_again_in_s(self, simulation: "Simulation") -> float:
        """When it may decide otherwise although nothing happened."""


def counts_of(slots: Slots) -> Counts:
    """The number of slots, by class."""
    return {of: len(indices) for of, indices in slots}


def alike_hosts(hosts: int, slots: int) -> list[HostSlots]:
    """Empty hosts that work together, each with so many GPUs of one model."""
    names = [f"h{number:05}" for number in range(hosts)]
    free = tuple(range(slots))
    return [HostSlots(name, (ClassSlots(SlotClass(name, "gpu"), free, slots),), "all") for name in names]


class Simulation:
    """Hosts, and jobs on them.

    It begins at `begins_s`, by default with the first submission. Jobs that were submitted before wait then, or hold
    their `slots`. The hosts say which slots are free at that time. `every_s`: the scheduler decides once in so much
    time; 0: whenever something happens.
    """

    def __init__(
        self,
        jobs: Iterable[SimulatedJob],
        hosts: Iterable[HostSlots],
        *,
        begins_s: float = -math.inf,
        every_s: float = 0.0,
    ) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.live = {job.attempt_id: job for job in self.jobs.values() if job.slots}
        self.begins_s = self.now_s = begins_s
        self._every_s = every_s
        self._waiting = 0
        self._hosts = {host.host: replace(host, links=None) for host in hosts}  # joined GPUs are only preferred
        self._capacity = {one.of: one.capacity for host in self._hosts.values() for one in host.classes}
        self._free = {one.of: one.free for host in self._hosts.values() for one in host.classes}
        self.slots = Counter[str]()  # by kind
        for of, capacity in self._capacity.items():
            self.slots[of.kind] += capacity
        self._events: list[tuple[float, int, str, SimulatedJob | None, int]] = []
        self._number = 0
        self._attempts = max(self.live, default=0)

    @property
    def hosts(self) -> Iterable[HostSlots]:
        """The hosts with their free slots."""
        return self._hosts.values()

    def slots_at(self, host: str, indices: Sequence[int]) -> Slots:
        """These free slots of a host, by class."""
        classes = self._hosts[host].classes
        if len(classes) == 1:
            return ((classes[0].of, tuple(indices)),)
        taken = ((one.of, tuple(index for index in indices if index in one.free)) for one in classes)
        return tuple((of, part) for of, part in taken if part)

    def run(self, scheduler: Scheduler) -> None:
        """Simulate everything, until the last job has ended."""
        for _ in self.steps(scheduler):
            pass

    def steps(self, scheduler: Scheduler) -> Iterator[float]:
        """The same, and give the time after each decision. Call it once."""
        for job in self.jobs.values():
            self._begin(job)
        look_s = math.inf
        while self._events:
            self.now_s = self._events[0][0]
            decides_s = math.ceil(self.now_s / self._every_s) * self._every_s if self._every_s else self.now_s
            happened = False
            while self._events and self._events[0][0] <= decides_s + SOON_S:
                time_s, _, event, of, plan = heapq.heappop(self._events)
                if of is None:
                    happened = happened or time_s == look_s
                elif plan == of.plan:
                    self.now_s = min(time_s, decides_s) if self._every_s else decides_s
                    self._happens(event, of, scheduler)
                    happened = True
            self.now_s = decides_s
            if not happened:
                continue
            look_s = math.inf if look_s <= self.now_s + SOON_S else look_s
            started, preempted = scheduler.decide(self)
            for job_id, slots in started.items():
                self._start(self.jobs[job_id], slots, scheduler)
            for attempt_id in preempted:
                self._preempt(self.live[attempt_id])
            yield self.now_s
            again_s = self.now_s + self._looks_again_in_s(scheduler)
            if again_s < look_s:
                look_s = again_s
                self._at(again_s, "look", None)

    def _looks_again_in_s(self, scheduler: Scheduler) -> float:
        if self._every_s:
            return self._every_s if self._waiting else math.inf
        return max(scheduler.looks_again_in_s(self), 2 * SOON_S)

    def _begin(self, job: SimulatedJob) -> None:
        if not job.slots:
            self._at(max(job.submitted_s, self.begins_s), "submit", job)
            return
        self._at(max(job.ends_s, self.begins_s), "end", job)
        if job.leaving:
            self._preempt(job)

    def _at(self, time_s: float, kind: str, job: SimulatedJob | None) -> None:
        if math.isfinite(time_s):
            self._number += 1
            heapq.heappush(self._events, (time_s, self._number, kind, job, job.plan if job else 0))

    def _happens(self, kind: str, job: SimulatedJob, scheduler: Scheduler) -> None:
        if kind != "submit":
            held_s = job.held_s(self.now_s)
            scheduler.released(job, self.now_s)
            self._release(job, held_s)
        if kind == "end":
            job.ended_s = self.now_s
            return
        if kind == "save":
            job.left_s -= held_s - job.cost_s if math.isfinite(job.cost_s) else 0.0
            job.preemptions += 1
            job.queued_s = self.now_s
        self._waiting += 1
        scheduler.add(job)

    def _start(self, job: SimulatedJob, slots: Slots, scheduler: Scheduler) -> None:
        scheduler.remove(job)
        self._waiting -= 1
        self._attempts += 1
        job.attempt_id = self._attempts
        job.begun_s, job.waited_s, job.slots, job.leaving = self.now_s, self.now_s - job.queued_s, slots, False
        job.gpus = sum(len(indices) for _, indices in slots)
        if math.isnan(job.first_start_s):
            job.first_start_s = self.now_s
        job.plan += 1
        self.live[job.attempt_id] = job
        for of, indices in slots:
            self._set_free(of, tuple(index for index in self._free[of] if index not in indices))
        self._at(job.ends_s, "end", job)

    def _preempt(self, job: SimulatedJob) -> None:
        saved_s = self.now_s + (job.cost_s if math.isfinite(job.cost_s) else 0.0) * _OF_SAVING
        job.leaving = True
        if saved_s < job.ends_s:
            job.plan += 1
            self._at(saved_s, "save", job)

    def _release(self, job: SimulatedJob, held_s: float) -> None:
        job.slot_s += held_s * job.gpus
        del self.live[job.attempt_id]
        for of, indices in job.slots:
            self._set_free(of, tuple(sorted((*self._free[of], *indices))))
        job.slots = ()

    def _set_free(self, of: SlotClass, free: tuple[int, ...]) -> None:
        self._free[of] = free
        host = self._hosts[of.host]
        classes = tuple(ClassSlots(one.of, self._free[one.of], one.capacity) for one in host.classes)
        self._hosts[of.host] = HostSlots(host.host, classes, host.peers)
