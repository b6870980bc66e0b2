"""Replays jobs in simulated time on hosts whose slots are all alike. Pure.

A `Scheduler` decides after every submission, end and save. `HoraScheduler` decides as the dispatcher does, with its own
pass: `jobs.scheduling.placement`. Other schedulers are in `bench.queue_policies`.
"""

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import Protocol

from jobs.model.attained_service import HALF_LIFE_S, decayed_s, level_of, seconds_to_next_level, undisturbed_s
from jobs.scheduling.contenders import Account, LiveAttempt, Order, QueuedJob
from jobs.scheduling.fair_queue import OLDEST, PATIENCE_S, Fair, Fifo
from jobs.scheduling.fitting import ClassSlots, HostSlots, SlotClass, SlotRequest
from jobs.scheduling.placement import PlacementPass

Slots = tuple[tuple[str, tuple[int, ...]], ...]  # hosts, and the indices of their slots

_PEERS = "all"
_LOOKED_AT = 4 * OLDEST  # among so many of the oldest jobs, those that come first are looked for
_SOON_S = 1e-3  # times closer than this are one
_OF_SAVING = 0.25  # of what a preemption costs: the slots are held so long until the job has saved


@dataclass(eq=False)
class SimulatedJob:
    """A job with the time for which it trains, and what became of it. Times are in seconds from any zero.

    `left_s`: how long it has still to train, with what its preemptions cost. `slot_s`: slot-seconds of its attempts
    that have ended.
    """

    job_id: str
    submitted_s: float
    duration_s: float
    gpus: int
    user: str = ""
    project: str = ""
    priority: int = 50
    ended_s: float = math.nan
    preemptions: int = 0
    left_s: float = field(init=False)
    slot_s: float = 0.0
    queued_s: float = 0.0  # when it last began to wait
    attempt_id: int = 0
    begun_s: float = 0.0  # of its last attempt
    waited_s: float = 0.0  # before its last attempt
    slots: Slots = ()  # empty: it holds none
    leaving: bool = False
    plan: int = 0  # events of earlier plans are void

    def __post_init__(self) -> None:
        """All is left to do."""
        self.left_s = self.duration_s

    @property
    def order(self) -> Order:
        """The sort key of the queue by age."""
        return -self.priority, self.submitted_s, self.job_id

    @property
    def account(self) -> Account:
        """Whose usage it counts for."""
        return Account(self.project, self.user)

    @property
    def wait_s(self) -> float:
        """All time that it did not train: what its preemptions cost counts too."""
        return self.ended_s - self.submitted_s - self.duration_s

    @property
    def ends_s(self) -> float:
        """When its attempt ends if it is left alone."""
        return self.begun_s + self.left_s

    def level(self, now_s: float) -> int:
        """The level of its attained service."""
        return level_of(self.slot_s + self.held_s(now_s) * self.gpus)

    def held_s(self, now_s: float) -> float:
        """How long it has held its slots."""
        return now_s - self.begun_s if self.slots else 0.0


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


class Simulation:
    """Hosts, and jobs on them. A job trains `cost_s` seconds longer for each of its preemptions."""

    def __init__(self, jobs: Iterable[SimulatedJob], hosts: int, slots: int, *, cost_s: float = 60.0) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.live: dict[int, SimulatedJob] = {}
        self.now_s = 0.0
        self.cost_s = cost_s
        self.slots = hosts * slots
        self._slots_each = slots
        self._free = {f"h{number:05}": tuple(range(slots)) for number in range(hosts)}
        self._classes = {name: SlotClass(name, "gpu") for name in self._free}
        self._hosts = {name: self._host_slots(name) for name in self._free}
        self._events: list[tuple[float, int, str, SimulatedJob | None, int]] = []
        self._number = 0
        self._attempts = 0

    @property
    def hosts(self) -> Iterable[HostSlots]:
        """The hosts with their free slots."""
        return self._hosts.values()

    def counts(self, job: SimulatedJob) -> dict[SlotClass, int]:
        """The slots that a job holds, by class."""
        return {self._classes[host]: len(indices) for host, indices in job.slots}

    def run(self, scheduler: Scheduler) -> None:
        """Replay everything, until the last job has ended."""
        for job in self.jobs.values():
            self._at(job.submitted_s, "submit", job)
        look_s = math.inf
        while self._events:
            self.now_s = self._events[0][0]
            happened = False
            while self._events and self._events[0][0] <= self.now_s + _SOON_S:
                time_s, _, event, of, plan = heapq.heappop(self._events)
                if of is None:
                    happened = happened or time_s == look_s
                elif plan == of.plan:
                    self._happens(event, of, scheduler)
                    happened = True
            if not happened:
                continue
            look_s = math.inf if look_s <= self.now_s + _SOON_S else look_s
            started, preempted = scheduler.decide(self)
            for job_id, slots in started.items():
                self._start(self.jobs[job_id], slots, scheduler)
            for attempt_id in preempted:
                self._preempt(self.live[attempt_id])
            again_s = self.now_s + max(scheduler.looks_again_in_s(self), 2 * _SOON_S)
            if again_s < look_s:
                look_s = again_s
                self._at(again_s, "look", None)

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
            job.left_s += self.cost_s - held_s
            job.preemptions += 1
        job.queued_s = self.now_s
        scheduler.add(job)

    def _start(self, job: SimulatedJob, slots: Slots, scheduler: Scheduler) -> None:
        scheduler.remove(job)
        self._attempts += 1
        job.attempt_id = self._attempts
        job.begun_s, job.waited_s, job.slots, job.leaving = self.now_s, self.now_s - job.queued_s, slots, False
        job.plan += 1
        self.live[job.attempt_id] = job
        for host, indices in slots:
            self._free[host] = tuple(index for index in self._free[host] if index not in indices)
            self._hosts[host] = self._host_slots(host)
        self._at(job.ends_s, "end", job)

    def _preempt(self, job: SimulatedJob) -> None:
        saved_s = self.now_s + self.cost_s * _OF_SAVING
        job.leaving = True
        if saved_s < job.ends_s:
            job.plan += 1
            self._at(saved_s, "save", job)

    def _release(self, job: SimulatedJob, held_s: float) -> None:
        job.slot_s += held_s * job.gpus
        del self.live[job.attempt_id]
        for host, indices in job.slots:
            self._free[host] = tuple(sorted((*self._free[host], *indices)))
            self._hosts[host] = self._host_slots(host)
        job.slots = ()

    def _host_slots(self, host: str) -> HostSlots:
        return HostSlots(host, (ClassSlots(self._classes[host], self._free[host], self._slots_each),), _PEERS)


class HoraScheduler:
    """The dispatcher's own pass, by the rules of `HORA_QUEUE`: `fair` or `fifo`. It knows no durations."""

    def __init__(
        self, queue: str, *, half_life_s: float = HALF_LIFE_S, shares: Mapping[str, float] | None = None
    ) -> None:
        self._is_fair = queue == "fair"
        self._half_life_s = half_life_s
        self._shares = shares or {}
        self._by_age: list[tuple[Order, QueuedJob]] = []
        self._lanes: dict[Account, list[tuple[tuple[int, int, float, str], QueuedJob]]] = defaultdict(list)
        self._used_s: dict[Account, tuple[float, float]] = {}  # slot-seconds, and when
        self._queued: dict[str, QueuedJob] = {}

    def add(self, job: SimulatedJob) -> None:
        """A job begins to wait."""
        queued = QueuedJob(job.job_id, job.order, _request(job.gpus), account=job.account, level=level_of(job.slot_s))
        self._queued[job.job_id] = queued
        insort(self._by_age, (queued.order, queued), key=itemgetter(0))
        insort(self._lanes[queued.account], (_in_lane(queued), queued), key=itemgetter(0))

    def remove(self, job: SimulatedJob) -> None:
        """A job got slots."""
        queued = self._queued.pop(job.job_id)
        lane = self._lanes[queued.account]
        del self._by_age[bisect_left(self._by_age, queued.order, key=itemgetter(0))]
        del lane[bisect_left(lane, _in_lane(queued), key=itemgetter(0))]
        if not lane:
            del self._lanes[queued.account]

    def released(self, job: SimulatedJob, now_s: float) -> None:
        """Charge the account for what the attempt held."""
        used_s = self._used(job.account, now_s) + decayed_s(job.held_s(now_s), self._half_life_s) * job.gpus
        self._used_s[job.account] = used_s, now_s

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        """One pass over the queue."""
        if not self._queued:
            return {}, ()
        now_s = simulation.now_s
        live = [self._live(simulation, job) for job in simulation.live.values()]
        rules = self._fair(simulation, live) if self._is_fair else Fifo()
        decided = PlacementPass(simulation.hosts, live, rules=rules)
        if isinstance(rules, Fair):
            waits = ((queued, now_s - simulation.jobs[queued.job_id].queued_s) for queued in self._oldest())
            oldest = [replace(queued, waited_s=waited_s) for queued, waited_s in waits if waited_s >= PATIENCE_S]
            lanes = {account: (queued for _, queued in lane) for account, lane in self._lanes.items()}
            decided.take(rules.in_turn(lanes, oldest))
        else:
            decided.take(queued for _, queued in self._by_age)
        started = {
            placement.job_id: tuple((share.host, share.slots) for share in placement.shares)
            for placement in decided.placements
        }
        return started, [number for preemption in decided.preemptions for number in preemption.attempt_ids]

    def looks_again_in_s(self, simulation: Simulation) -> float:
        """When the next attempt may be disturbed, or enters a level, or the next job has waited for long."""
        if not self._is_fair or not self._queued:
            return math.inf
        now_s = simulation.now_s
        times_s = [
            time_s
            for job in simulation.live.values()
            if not job.leaving
            for time_s in (
                _undisturbed_s(simulation, job),
                seconds_to_next_level(job.slot_s + job.held_s(now_s) * job.gpus, job.gpus),
            )
        ]
        times_s += [simulation.jobs[queued.job_id].queued_s + PATIENCE_S - now_s for queued in self._oldest()]
        return min((time_s for time_s in times_s if time_s > _SOON_S), default=math.inf)

    def _oldest(self) -> list[QueuedJob]:
        """The oldest jobs, and some more if some accounts may have had their shares."""
        number = OLDEST if len(self._lanes) == 1 else _LOOKED_AT
        return [queued for _, queued in self._by_age[:number]]

    def _live(self, simulation: Simulation, job: SimulatedJob) -> LiveAttempt:
        return LiveAttempt(
            job.attempt_id, job.order, simulation.counts(job), leaving=job.leaving, account=job.account,
            level=job.level(simulation.now_s), undisturbed_s=_undisturbed_s(simulation, job),
        )  # fmt: skip

    def _fair(self, simulation: Simulation, live: Sequence[LiveAttempt]) -> Fair:
        now_s = simulation.now_s
        used_s = {account: self._used(account, now_s) for account in self._lanes}
        for job in simulation.live.values():
            account = job.account
            if account not in used_s:
                used_s[account] = self._used(account, now_s)
            used_s[account] += decayed_s(job.held_s(now_s), self._half_life_s) * job.gpus
        return Fair(live, used_s, self._shares, {"gpu": simulation.slots}, wanting=self._lanes.keys())

    def _used(self, account: Account, now_s: float) -> float:
        used_s, at_s = self._used_s.get(account, (0.0, now_s))
        return used_s * 2 ** ((at_s - now_s) / self._half_life_s)


@cache
def _request(gpus: int) -> SlotRequest:
    return SlotRequest(gpus)


def _in_lane(job: QueuedJob) -> tuple[int, int, float, str]:
    priority, submitted_s, job_id = job.order
    return priority, job.level, submitted_s, job_id


def _undisturbed_s(simulation: Simulation, job: SimulatedJob) -> float:
    held_s = job.held_s(simulation.now_s)
    return undisturbed_s(held_s, cost_s=simulation.cost_s, ran_s=job.slot_s / job.gpus + held_s, waited_s=job.waited_s)
