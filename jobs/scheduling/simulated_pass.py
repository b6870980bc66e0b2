"""The dispatcher's own pass, as the scheduler of a simulation. Pure."""

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import itemgetter

from jobs.model.attained_service import HALF_LIFE_S, QUANTUM_S, decayed_s, seconds_to_next_level, undisturbed_s
from jobs.model.bursts import BurstLevels
from jobs.scheduling.allowances import Quota
from jobs.scheduling.contenders import Account, LiveAttempt, Order, QueuedJob
from jobs.scheduling.fair_queue import OLDEST, PATIENCE_S, Fair, Fifo
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.simulation import SOON_S, SimulatedJob, Simulation, Slots
from jobs.scheduling.slots import SlotRequest

_LOOKED_AT = 4 * OLDEST  # among so many of the oldest jobs, those that come first are looked for


class HoraScheduler:
    """The dispatcher's own pass, by the rules of `HORA_QUEUE`: `fair` or `fifo`.

    It knows no durations, only what jobs say themselves. `used_s` are the decayed slot-seconds that the ended attempts
    of each account had used, and when. Only the slots of `quotas` change later. `auto` is as in
    `jobs.scheduling.placement`.
    """

    def __init__(
        self,
        queue: str,
        *,
        half_life_s: float = HALF_LIFE_S,
        quantum_s: float = QUANTUM_S,
        shares: Mapping[str, float] | None = None,
        used_s: Mapping[Account, tuple[float, float]] | None = None,
        quotas: Iterable[Quota] = (),
        auto: str | None = None,
    ) -> None:
        self._is_fair = queue == "fair"
        self._half_life_s = half_life_s
        self._quantum_s = quantum_s
        self._shares = shares or {}
        self._quotas = list(quotas)
        self._auto = auto
        self._by_age: list[tuple[Order, QueuedJob]] = []
        self._lanes: dict[Account, list[tuple[tuple[int, int, float, str], QueuedJob]]] = defaultdict(list)
        self._used_s = dict(used_s or {})
        self._queued: dict[str, QueuedJob] = {}
        self._burst_levels = BurstLevels()
        self._waiting_of: dict[str, dict[str, SimulatedJob]] = defaultdict(dict)  # by burst and id

    def with_empty_queue(self) -> "HoraScheduler":
        """A scheduler with the same rules and the same usage, for another simulation."""
        return HoraScheduler(
            "fair" if self._is_fair else "fifo", half_life_s=self._half_life_s, quantum_s=self._quantum_s,
            shares=self._shares, used_s=self._used_s, quotas=self._quotas, auto=self._auto,
        )  # fmt: skip

    def add(self, job: SimulatedJob) -> None:
        """A job begins to wait."""
        if job.burst:
            job.least_level = max(job.least_level, self._burst_levels.expected(job.burst))
            self._waiting_of[job.burst][job.job_id] = job
        self._enqueue(job)

    def _enqueue(self, job: SimulatedJob) -> None:
        request = job.request or _request(job.gpus)
        level = job.level(job.queued_s)
        queued = QueuedJob(job.job_id, job.order, request, job.estimate_s, job.account, job.keeps_files, level)
        self._queued[job.job_id] = queued
        insort(self._by_age, (queued.order, queued), key=itemgetter(0))
        insort(self._lanes[queued.account], (_in_lane(queued), queued), key=itemgetter(0))

    def remove(self, job: SimulatedJob) -> None:
        """A job got slots."""
        if job.burst:
            del self._waiting_of[job.burst][job.job_id]
        self._dequeue(job)

    def _dequeue(self, job: SimulatedJob) -> None:
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
        self._note_level(job, now_s, has_ended=job.ends_s <= now_s + 2 * SOON_S)

    def _note_level(self, job: SimulatedJob, now_s: float, *, has_ended: bool = False) -> None:
        """Raise the waiting jobs of its burst, if this job has entered a level now that says something of them."""
        slot_s = job.slot_s + job.held_s(now_s + SOON_S) * job.gpus
        if not job.burst or not self._burst_levels.note(job.burst, job.job_id, slot_s, has_ended=has_ended):
            return
        level = self._burst_levels.expected(job.burst)
        for waiting in self._waiting_of[job.burst].values():
            if waiting.level(waiting.queued_s) < level:
                self._dequeue(waiting)
                waiting.least_level = level
                self._enqueue(waiting)

    def decide(self, simulation: Simulation) -> tuple[Mapping[str, Slots], Sequence[int]]:
        """One pass over the queue."""
        if not self._queued:
            return {}, ()
        now_s = simulation.now_s
        if self._is_fair:
            for job in simulation.live.values():
                self._note_level(job, now_s)
        live = [self._live(job, now_s) for job in simulation.live.values()]
        rules = self._fair(simulation, live) if self._is_fair else Fifo()
        decided = PlacementPass(simulation.hosts, live, self._quotas_now(simulation), auto=self._auto, rules=rules)
        if isinstance(rules, Fair):
            waits = ((queued, now_s - simulation.jobs[queued.job_id].queued_s + SOON_S) for queued in self._oldest())
            oldest = [replace(queued, waited_s=waited_s) for queued, waited_s in waits if waited_s >= PATIENCE_S]
            lanes = {account: (queued for _, queued in lane) for account, lane in self._lanes.items()}
            decided.take(rules.in_turn(lanes, oldest))
        else:
            decided.take(queued for _, queued in self._by_age)
        started = {
            placement.job_id: tuple(
                part for share in placement.shares for part in simulation.slots_at(share.host, share.slots)
            )
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
                self._undisturbed_s(job, now_s),
                seconds_to_next_level(job.slot_s + job.held_s(now_s) * job.gpus, job.gpus),
            )
        ]
        times_s += [simulation.jobs[queued.job_id].queued_s + PATIENCE_S - now_s for queued in self._oldest()]
        return min((time_s for time_s in times_s if time_s > SOON_S), default=math.inf)

    def _oldest(self) -> list[QueuedJob]:
        """The oldest jobs, and some more if some accounts may have had their shares."""
        number = OLDEST if len(self._lanes) == 1 else _LOOKED_AT
        return [queued for _, queued in self._by_age[:number]]

    def _live(self, job: SimulatedJob, now_s: float) -> LiveAttempt:
        if job.says_end:
            ends_in_s: float | None = job.ends_s - now_s
        else:
            ends_in_s = None if job.estimate_s is None else max(job.estimate_s - job.held_s(now_s), 0.0)
        return LiveAttempt(
            job.attempt_id, job.order, job.counts, ends_in_s, leaving=job.leaving, account=job.account,
            level=job.level(now_s + SOON_S), undisturbed_s=self._undisturbed_s(job, now_s),
        )  # fmt: skip

    def _undisturbed_s(self, job: SimulatedJob, now_s: float) -> float:
        left_s = undisturbed_s(
            job.held_s(now_s), cost_s=job.cost_s, ran_s=job.ran_s(now_s), waited_s=job.waited_s,
            quantum_s=self._quantum_s,
        )  # fmt: skip
        if job.says_end and job.ends_s - now_s <= self._quantum_s:
            return max(left_s, job.ends_s - now_s + 1.0)  # as `jobs.scheduling.live_rows` has it
        return left_s if left_s > SOON_S else 0.0  # or nobody would look at it again

    def _fair(self, simulation: Simulation, live: Sequence[LiveAttempt]) -> Fair:
        now_s = simulation.now_s
        used_s = {account: self._used(account, now_s) for account in self._lanes}
        for job in simulation.live.values():
            account = job.account
            if account not in used_s:
                used_s[account] = self._used(account, now_s)
            used_s[account] += decayed_s(job.held_s(now_s), self._half_life_s) * job.gpus
        return Fair(live, used_s, self._shares, simulation.slots, wanting=self._lanes.keys())

    def _used(self, account: Account, now_s: float) -> float:
        used_s, at_s = self._used_s.get(account, (0.0, now_s))
        return used_s * 2 ** ((at_s - now_s) / self._half_life_s)

    def _quotas_now(self, simulation: Simulation) -> list[Quota]:
        if not self._quotas:
            return []
        held = Counter[str]()
        for job in simulation.live.values():
            held[job.project] += job.gpus
        return [replace(quota, slots=held[quota.project]) for quota in self._quotas]


@cache
def _request(gpus: int) -> SlotRequest:
    return SlotRequest(gpus)


def _in_lane(job: QueuedJob) -> tuple[int, int, float, str]:
    priority, submitted_s, job_id = job.order
    return priority, job.level, submitted_s, job_id
