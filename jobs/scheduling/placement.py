"""Decides where queued jobs go, which attempts are preempted, and which slots are kept for which job. Pure.

A job that no host has room for now goes to a Slurm pool, if one can hold it: there Slurm decides what comes first.

Called by the dispatcher with the queue, the hosts and the live attempts; docs/scheduling.md has the rules.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from jobs.scheduling import nvlinks
from jobs.scheduling.allowances import Allowances, Quota
from jobs.scheduling.contenders import LiveAttempt, QueuedJob
from jobs.scheduling.decisions import Placement, PooledJob, Preemption, Share
from jobs.scheduling.fair_queue import Fifo, Rules
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.pools import Pool, Shape, first_that_fits
from jobs.scheduling.reservations import Ending, Reservation, free_after, or_infinite
from jobs.scheduling.slots import Counts, HostSlots, Shares, SlotClass, SlotRequest

RESERVATIONS = 4  # slots are kept for this many blocked jobs, the first ones of the queue
_PATIENCE = 500  # if so many jobs in a row get nothing, the pass does not wait for one that gets a pool or slots kept
_TRIES = 16  # at most this many kinds of blocked jobs are considered for that


@dataclass
class _Kind:
    """What a pass knows of the jobs with one request.

    `attainable`: what they wait for on hosts; `pooled`: the pool that takes them. `unplaceable`: the reservations that
    a job had to respect which did not fit. `unreservable`: the standings of those that got no reservation.
    """

    attainable: SlotRequest | None
    pooled: tuple[Pool, Shape] | None
    unplaceable: set[tuple[bool, ...]]
    unreservable: set[Hashable] = field(default_factory=set)

    @property
    def gpus(self) -> int:
        """How many slots such a job gets; 0: nothing here can ever hold it."""
        if self.attainable is not None:
            return self.attainable.gpus
        return 0 if self.pooled is None else self.pooled[1].gpus


class PlacementPass:
    """One pass over the queue, page by page. It decides on `placements`, `pooled`, `preemptions` and `reservations`.

    `auto` is the kind of slots for jobs with `device: auto`; None: GPUs if these hosts have any. No job of the queue
    has been handed to one of the `pools` yet. `rules` say which attempts make room for a job; by default `Fifo`.
    """

    def __init__(
        self,
        hosts: Iterable[HostSlots],
        live: Sequence[LiveAttempt] = (),
        quotas: Iterable[Quota] = (),
        *,
        pools: Sequence[Pool] = (),
        auto: str | None = None,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules or Fifo()
        self._pools = pools
        self._cluster = Cluster(hosts, auto=auto)
        self._free = self._cluster.left
        self._free_indices = {slots.of: slots.free for host in self._cluster.hosts.values() for slots in host.classes}
        has_links = any(host.links is not None for host in self._cluster.hosts.values())
        self._joined = self._joined_pairs if has_links else None
        self._live = live
        self.allowances = Allowances(quotas)
        self._leaving = {attempt.attempt_id for attempt in live if attempt.leaving}
        self._may_yield: dict[Hashable, list[LiveAttempt]] = {}  # by the standing of the job that needs slots
        self._sorted_ends: list[Ending] = []
        self._sorted_for = -1  # so many attempts were leaving then
        self._known_futures: dict[SlotRequest, tuple[float, Counts]] = {}
        self._known_at = (-1, -1, -1)  # so much was decided then
        self._endings: list[Ending] = []  # of the jobs that this pass places
        self._kinds: dict[SlotRequest, _Kind] = {}
        self._unplaceable: dict[Hashable, set[tuple[bool, ...]]] = {}
        self._unreservable = 0  # kinds of blocked jobs that got no reservation
        self.placements: list[Placement] = []
        self.pooled: list[PooledJob] = []
        self._last_pooled = 0  # how many jobs were looked at until then
        self._last_served = 0  # likewise, until a job got a reservation
        self.preemptions: list[Preemption] = []
        self.reservations: list[Reservation] = []
        self.looked_at = 0  # number of jobs, without those held back by a quota

    @property
    def _has_free(self) -> bool:
        return self._cluster.number_left > 0

    @property
    def is_over(self) -> bool:
        """Whether no further job of the queue can be placed or get a reservation."""
        if self._has_free or self._pools_may_take:
            return False
        return not self._may_reserve or self.looked_at - self._last_served >= _PATIENCE

    @property
    def in_vain(self) -> int:
        """How many of the jobs that were looked at got neither slots nor a pool, and no slots are kept for them."""
        return self.looked_at - len(self.placements) - len(self.pooled) - len(self.reservations)

    @property
    def _pools_may_take(self) -> bool:
        return bool(self._pools) and self.looked_at - self._last_pooled < _PATIENCE

    @property
    def _may_reserve(self) -> bool:
        return len(self.reservations) < RESERVATIONS and self._unreservable < _TRIES

    @property
    def kept_for(self) -> dict[str, str]:
        """The job for which free slots of a host are kept, by host."""
        return {
            slots.host: reservation.job_id
            for reservation in reversed(self.reservations)
            for slots in reservation.shares
        }

    def take(self, queue: Iterable[QueuedJob]) -> None:
        """Decide on the next jobs of the queue, in its order."""
        for job in queue:
            if self.is_over:
                return
            kind = self._kinds.get(job.request) or self._kind_of(job.request)
            # A job held back by its quota, or one that nothing here can ever hold, does not block others.
            if kind.gpus and not self.allowances.take(job.project, kind.gpus, keeps_files=job.keeps_files):
                continue
            self.looked_at += 1
            if self._has_free and kind.attainable is not None and self._place(job, kind.attainable, kind.unplaceable):
                continue
            if kind.pooled is not None:
                pool, shape = kind.pooled
                self.pooled.append(PooledJob(job.job_id, pool.name, shape))
                self._rules.placed(job, shape.gpus)
                self._last_pooled = self.looked_at
            elif kind.attainable is not None and self._may_reserve:
                standing = self._rules.standing(job)
                if standing in kind.unreservable:
                    continue
                if self._reserve(job, kind.attainable):
                    self._last_served = self.looked_at
                else:
                    kind.unreservable.add(standing)
                    self._unreservable += 1

    def may_ever_hold(self, job: QueuedJob) -> bool:
        """Whether these hosts and pools could hold the job if they were empty."""
        return (self._kinds.get(job.request) or self._kind_of(job.request)).gpus > 0

    def _kind_of(self, request: SlotRequest) -> "_Kind":
        """Remember what can be known of all jobs with this request."""
        anywhere = replace(request, last_hosts=()) if request.last_hosts else request
        pooled = first_that_fits(self._pools, anywhere, auto=self._cluster.auto)
        attainable = None if request.pool is not None else self._cluster.attainable(request)
        if attainable is not None and pooled is not None and pooled[1].gpus > attainable.gpus:
            attainable = None  # a job gets all its GPUs where it can
        unplaceable = self._unplaceable.setdefault(self._cluster.places(attainable or anywhere), set())
        self._kinds[request] = kind = _Kind(attainable, pooled, unplaceable)
        return kind

    def _place(self, job: QueuedJob, request: SlotRequest, unplaceable: set[tuple[bool, ...]]) -> bool:
        """Place the job now, if it fits without using slots that are kept for earlier jobs."""
        bound = tuple([reservation.binds(job.estimate_s) for reservation in self.reservations])
        if bound in unplaceable:  # the free slots only become fewer during a pass
            return False
        shares = self._cluster.fit(request, self._allowed(bound), self._joined)
        if shares is None:
            unplaceable.add(bound)
            return False
        untouched = [reservation for reservation in self.reservations if reservation.is_left_alone_by(shares)]
        passed = [reservation for reservation in self.reservations if not reservation.is_left_alone_by(shares)]
        self._cluster.take(shares)
        for slots, count in shares:
            for reservation in untouched:
                if slots in reservation.spare:
                    reservation.spare[slots] -= count
        due_s = min((reservation.at_s for reservation in passed), default=None)
        self.placements.append(Placement(job.job_id, tuple(self._take(shares)), due_s))
        self._endings.append(Ending(or_infinite(job.estimate_s), dict(shares)))
        self._rules.placed(job, request.gpus)
        self._may_yield.clear()
        return True

    def _allowed(self, bound: Sequence[bool]) -> Counts:
        """The free slots that a job may take. `bound` says for each reservation whether the job has to respect it."""
        if not any(bound):
            return self._free
        allowed = dict(self._free)
        for reservation, binds in zip(self.reservations, bound, strict=True):
            if binds:
                for slots, spare in reservation.spare.items():
                    allowed[slots] = min(allowed[slots], spare)
        return allowed

    def _take(self, shares: Shares) -> Iterator[Share]:
        for host, parts in groupby(shares, key=lambda part: part[0].host):
            links, taken, devices = self._cluster.hosts[host].links, list[int](), list[str]()
            for slots, count in parts:
                free = self._free_indices[slots]
                cards = nvlinks.best_cards(free, count, links)
                self._free_indices[slots] = tuple(index for index in free if index not in cards)
                taken += cards
                devices += [slots.device] * count
            yield Share(host, tuple(taken), tuple(devices))

    def _joined_pairs(self, slots: SlotClass, count: int) -> int:
        return nvlinks.joined_pairs(self._free_indices[slots], count, self._cluster.hosts[slots.host].links)

    def _reserve(self, job: QueuedJob, request: SlotRequest) -> bool:
        """Keep slots for a blocked job: those that preempted attempts release for it, or those that become free first.

        Nothing is kept for a job if its start time is unknown and an earlier job waits for the same slots. Its
        reservation would only stop short jobs from passing both.
        """
        room = self._make_room(job, request)
        if room is not None:
            self._rules.placed(job, request.gpus)  # it will be, so its account's next job makes no room by what it had
            self._may_yield.clear()
        at_s, future = room or self._comes_free(request)
        shares = self._cluster.fit(request, future)
        reserved = {slots for reservation in self.reservations for slots in reservation.shares}
        if shares is None or (math.isinf(at_s) and not reserved.isdisjoint(dict(shares))):
            return False
        spare = {slots: future[slots] - count for slots, count in shares}
        until_s = at_s + or_infinite(job.estimate_s)
        self.reservations.append(Reservation(job.job_id, dict(shares), at_s, spare, until_s))
        return True

    def _make_room(self, job: QueuedJob, request: SlotRequest) -> tuple[float, Counts] | None:
        """When the attempts that are ending make room for the job, and the free slots then. Preempts more if needed.

        None if preemption cannot make the job fit.
        """
        free_soon = self._future([attempt.slots for attempt in self._live if attempt.attempt_id in self._leaving])
        if self._cluster.room(request, free_soon).holds():
            return 0.0, free_soon
        preempted = self._fewest_to_preempt(request, free_soon, self._yielding(job))
        if not preempted:
            return None
        attempt_ids = tuple(attempt.attempt_id for attempt in preempted)
        self.preemptions.append(Preemption(job.job_id, attempt_ids))
        self._leaving.update(attempt_ids)
        return 0.0, free_after(free_soon, [attempt.slots for attempt in preempted])

    def _yielding(self, job: QueuedJob) -> list[LiveAttempt]:
        """The attempts that may be preempted for the job."""
        standing = self._rules.standing(job)
        # For later jobs of one standing they are only fewer, besides those that are overdue.
        among = self._may_yield.get(standing, self._live)
        staying = [attempt for attempt in among if attempt.attempt_id not in self._leaving]
        possible = [attempt for attempt in staying if attempt.overdue or self._rules.yields(attempt, job)]
        self._may_yield[standing] = possible
        return [attempt for attempt in possible if not attempt.overdue or self._rules.yields(attempt, job)]

    def _fewest_to_preempt(
        self, request: SlotRequest, soon: Counts, yielding: Sequence[LiveAttempt]
    ) -> list[LiveAttempt]:
        """The fewest attempts that must end so that the job fits. Empty if all of them together are not enough."""
        all_ended = [attempt.slots for attempt in yielding]
        if self._cluster.room(request, soon).first_to_hold(all_ended) > len(all_ended):
            return []
        cheapest_first = sorted(yielding, key=lambda attempt: self._rules.sparing(attempt, request.gpus))
        room = self._cluster.room(request, soon)
        count = room.first_to_hold(attempt.slots for attempt in cheapest_first)
        ended = [attempt.slots for attempt in cheapest_first[:count]]
        taken = dict(self._cluster.fit(request, free_after(soon, ended)) or ()).keys()
        needed = {attempt.attempt_id: attempt for attempt in cheapest_first[:count] if attempt.slots.keys() & taken}
        room = self._cluster.room(request, free_after(soon, [attempt.slots for attempt in needed.values()]))
        for attempt in reversed([*needed.values()]):  # the most costly ones are spared first
            room.add(attempt.slots, -1)
            if room.holds():
                del needed[attempt.attempt_id]
            else:
                room.add(attempt.slots)
        return [*needed.values()]

    def _comes_free(self, request: SlotRequest) -> tuple[float, Counts]:
        """When enough slots become free, by the expected ends of the attempts, and the free slots then.

        Attempts whose end is unknown count as ending last, in the sequence in which they began.
        """
        state = len(self.placements), len(self._leaving), len(self.reservations)
        if self._known_at != state:
            self._known_futures, self._known_at = {}, state
        if request not in self._known_futures:
            self._known_futures[request] = self._find_future(request)
        return self._known_futures[request]

    def _find_future(self, request: SlotRequest) -> tuple[float, Counts]:
        endings = [
            *self._attempts_end,
            *self._endings,
            *(Ending(reservation.until_s, reservation.shares) for reservation in self.reservations),
        ]
        endings.sort(key=lambda ending: ending.in_s)
        room = self._cluster.room(request, self._future(()))
        count = room.first_to_hold(ending.slots for ending in endings)
        at_s = endings[count - 1].in_s if 0 < count <= len(endings) else 0.0
        if not math.isinf(at_s):
            count += sum(ending.in_s == at_s for ending in endings[count:])
        return at_s, self._future([ending.slots for ending in endings[:count]])

    @property
    def _attempts_end(self) -> list[Ending]:
        """The live attempts, sorted by their expected ends."""
        if len(self._leaving) != self._sorted_for:
            by_age = sorted(self._live, key=lambda attempt: attempt.attempt_id)
            staying = [attempt for attempt in by_age if attempt.attempt_id not in self._leaving]
            leaving = [Ending(0.0, attempt.slots) for attempt in self._live if attempt.attempt_id in self._leaving]
            ends = [*leaving, *(Ending(or_infinite(attempt.ends_in_s), attempt.slots) for attempt in staying)]
            ends.sort(key=lambda ending: ending.in_s)
            self._sorted_ends, self._sorted_for = ends, len(self._leaving)
        return self._sorted_ends

    def _future(self, ended: Sequence[Counts]) -> dict[SlotClass, int]:
        """The free slots after these attempts have ended, without those kept for earlier jobs."""
        future = free_after(self._free, ended)
        for reservation in self.reservations:
            for slots, count in reservation.shares.items():
                future[slots] -= count
        return future


def place_jobs(
    queue: Iterable[QueuedJob],
    hosts: Iterable[HostSlots],
    live: Sequence[LiveAttempt] = (),
    quotas: Iterable[Quota] = (),
    *,
    pools: Sequence[Pool] = (),
    auto: str | None = None,
    rules: Rules | None = None,
) -> PlacementPass:
    """Decide on a whole queue, which is sorted."""
    decided = PlacementPass(hosts, live, quotas, pools=pools, auto=auto, rules=rules)
    decided.take(queue)
    return decided
