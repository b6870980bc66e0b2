"""Which waiting jobs go where, which attempts make room, and what is kept for whom: pure.

Called by the dispatcher with the queue, the hosts and the live attempts; docs/scheduling.md tells the rules.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from jobs.scheduling.allowances import Allowances, Quota
from jobs.scheduling.fitting import Cluster, Counts, HostSlots, Shares, Wish
from jobs.scheduling.reservations import Ending, Reservation, added, or_never

RESERVATIONS = 4  # for how many blocked jobs slots are kept: the first ones of the queue
_TRIES = 16  # how many kinds of blocked jobs are looked at for that

Order = tuple[int, float, str]  # a job's place in the queue: by priority (negative), then age, then id


@dataclass(frozen=True)
class Waiting:
    """A queued job. `estimate_s` is how long it holds its slots at most, as far as one can tell."""

    job_id: str
    order: Order
    wish: Wish
    estimate_s: float | None = None
    project: str = ""

    @property
    def priority(self) -> int:
        """The higher, the sooner."""
        return -self.order[0]


@dataclass(frozen=True)
class Live:
    """An attempt that holds slots, and how many of them come free on which hosts when it ends.

    `leaving`: it is already on its way out, so its slots come free soon. `overdue`: it passed a job that waits, and
    should have ended by now.
    """

    attempt_id: int
    order: Order  # its job's
    slots: Counts
    ends_in_s: float | None = None  # None: nobody knows
    leaving: bool = False
    overdue: bool = False

    def yields_to(self, job: Waiting) -> bool:
        """Whether it has to make room for the job."""
        return -self.order[0] < job.priority or (self.overdue and job.order < self.order)


@dataclass(frozen=True)
class Share:
    """What a job gets of one host."""

    host: str
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """Where a job goes: its ranks go to the slots of the first share, then to those of the second, and so on.

    The first share's host is the lead. `due_s` is for how long the job may stay where others that it passed wait.
    """

    job_id: str
    shares: tuple[Share, ...]
    due_s: float | None = None

    @property
    def slots(self) -> list[tuple[str, int]]:
        """Host and index of each slot, in the order of the ranks."""
        return [(share.host, index) for share in self.shares for index in share.slots]

    @property
    def gpus(self) -> int:
        """How many slots it takes."""
        return sum(len(share.slots) for share in self.shares)

    def to_json(self) -> list[dict[str, object]]:
        """As the attempt's row and its event hold it."""
        return [{"host": share.host, "slots": list(share.slots)} for share in self.shares]


@dataclass(frozen=True)
class Preemption:
    """Attempts that are to save and leave, so that a job can start."""

    job_id: str
    attempt_ids: tuple[int, ...]


class Pass:
    """One look at the queue, taken page by page: what is decided is in `placements`, `preemptions` and `kept`."""

    def __init__(self, hosts: Iterable[HostSlots], live: Sequence[Live] = (), quotas: Iterable[Quota] = ()) -> None:
        self._cluster = Cluster(hosts)
        self._free = dict(self._cluster.free)
        self._left = {name: host.free for name, host in self._cluster.hosts.items()}
        self._live = live
        self.allowances = Allowances(quotas)
        self._leaving = {one.attempt_id for one in live if one.leaving}
        self._endings: list[Ending] = []  # of what this pass places
        self._attainable: dict[Wish, Wish | None] = {}
        self._hopeless: set[tuple[Wish, tuple[bool, ...]]] = set()
        self._refused: set[tuple[Wish, int]] = set()  # that nothing is kept for, by priority
        self.placements: list[Placement] = []
        self.preemptions: list[Preemption] = []
        self.reservations: list[Reservation] = []
        self.looked_at = 0  # jobs, without those that a quota keeps

    @property
    def is_over(self) -> bool:
        """Whether no further job of the queue can be placed, nor have anything kept for it."""
        return not self._may_reserve and not any(self._free.values())

    @property
    def _may_reserve(self) -> bool:
        return len(self.reservations) < RESERVATIONS and len(self._refused) < _TRIES

    @property
    def kept(self) -> dict[str, str]:
        """The job for which a host's free slots are kept, by host."""
        return {host: one.job_id for one in reversed(self.reservations) for host in one.shares}

    def take(self, queue: Iterable[Waiting]) -> None:
        """Decide on the next jobs of the queue, in its order."""
        for job in queue:
            if self.is_over:
                return
            wish = self._attainable_of(job.wish)
            # What its project's quota does not allow, or no set of these hosts can hold, keeps nobody else waiting.
            if wish is not None and not self.allowances.take(job.project, wish.gpus):
                continue
            self.looked_at += 1
            if wish is None:
                continue
            if not self._place(job, wish) and self._may_reserve and (wish, job.priority) not in self._refused:
                self._reserve(job, wish)

    def _attainable_of(self, wish: Wish) -> Wish | None:
        if wish not in self._attainable:
            self._attainable[wish] = self._cluster.attainable(wish)
        return self._attainable[wish]

    def _place(self, job: Waiting, wish: Wish) -> bool:
        """Place the job now, if it fits beside what is kept for those before it."""
        bound = tuple(one.binds(job.estimate_s) for one in self.reservations)
        shape = replace(wish, last_hosts=()) if wish.last_hosts else wish, bound
        if shape in self._hopeless:  # what is free only shrinks during a pass
            return False
        shares = self._cluster.fit(wish, self._allowed(bound))
        if shares is None:
            self._hopeless.add(shape)
            return False
        due_s = min((one.at_s for one in self.reservations if not one.is_left_alone_by(shares)), default=None)
        for host, taken in shares:
            self._free[host] -= taken
        for one in self.reservations:
            if one.is_left_alone_by(shares):
                for host in one.spare.keys() & dict(shares).keys():
                    one.spare[host] -= dict(shares)[host]
        self.placements.append(Placement(job.job_id, tuple(self._take(shares)), due_s))
        self._endings.append(Ending(or_never(job.estimate_s), dict(shares)))
        return True

    def _allowed(self, bound: Sequence[bool]) -> Counts:
        """The free slots that a job may take which these reservations bind."""
        if not any(bound):
            return self._free
        allowed = dict(self._free)
        for one, binds in zip(self.reservations, bound, strict=True):
            if binds:
                for host, spare in one.spare.items():
                    allowed[host] = min(allowed[host], spare)
        return allowed

    def _take(self, shares: Shares) -> Iterator[Share]:
        for host, taken in shares:
            indices = self._left[host]
            self._left[host] = indices[taken:]
            yield Share(host, indices[:taken])

    def _reserve(self, job: Waiting, wish: Wish) -> None:
        """Keep slots for a blocked job: those that attempts leave for it, or those that come free first.

        A job that would have to wait, for nobody knows how long, for one before it that waits too keeps nothing: it
        would only keep short jobs from passing both.
        """
        at_s, future = self._make_room(job, wish) or self._comes_free(wish)
        shares = self._cluster.fit(wish, future)
        kept = {host for one in self.reservations for host in one.shares}
        if shares is None or (math.isinf(at_s) and not kept.isdisjoint(dict(shares))):
            self._refused.add((wish, job.priority))
            return
        spare = {host: future[host] - taken for host, taken in shares}
        until_s = at_s + or_never(job.estimate_s)
        self.reservations.append(Reservation(job.job_id, dict(shares), at_s, spare, until_s))

    def _make_room(self, job: Waiting, wish: Wish) -> tuple[float, Counts] | None:
        """When what leaves makes room for the job, and what is free then; asks further attempts to leave if need be."""
        soon = self._future([one.slots for one in self._live if one.attempt_id in self._leaving])
        if self._cluster.fit(wish, soon) is not None:
            return 0.0, soon
        yielding = [one for one in self._live if one.attempt_id not in self._leaving and one.yields_to(job)]
        yielding.sort(key=lambda one: (-one.order[0], -one.attempt_id))  # the lowest priority, of that the youngest
        asked = self._fewest(wish, soon, yielding)
        if not asked:
            return None
        self.preemptions.append(Preemption(job.job_id, tuple(one.attempt_id for one in asked)))
        self._leaving |= {one.attempt_id for one in asked}
        return 0.0, added(soon, [one.slots for one in asked])

    def _fewest(self, wish: Wish, soon: Counts, yielding: Sequence[Live]) -> list[Live]:
        """Those of the attempts that must leave for the job to fit, each of them needed; none where all are too few."""

        def fits(leaving: Sequence[Live]) -> Shares | None:
            return self._cluster.fit(wish, added(soon, [one.slots for one in leaving]))

        count = bisect_left(range(len(yielding)), True, key=lambda n: fits(yielding[: n + 1]) is not None) + 1
        shares = fits(yielding[:count]) if count <= len(yielding) else None
        if shares is None:
            return []
        hosts = dict(shares).keys()
        asked = [one for one in yielding[:count] if one.slots.keys() & hosts]
        for one in asked[::-1]:  # those that cost most are spared first
            others = [other for other in asked if other is not one]
            if fits(others) is not None:
                asked = others
        return asked

    def _comes_free(self, wish: Wish) -> tuple[float, Counts]:
        """When enough slots come free by what is expected of the attempts, and what is free then.

        Where that is not enough by what one can tell, the others are taken to end in the order in which they began.
        """
        leaving = [Ending(0.0, one.slots) for one in self._live if one.attempt_id in self._leaving]
        staying = [one for one in self._live if one.attempt_id not in self._leaving]
        staying.sort(key=lambda one: one.attempt_id)
        endings = [*leaving, *(Ending(or_never(one.ends_in_s), one.slots) for one in staying), *self._endings]
        endings += [Ending(one.until_s, one.shares) for one in self.reservations]
        endings.sort(key=lambda one: one.in_s)

        def future(count: int) -> Counts:
            return self._future([one.slots for one in endings[:count]])

        numbers = range(len(endings) + 1)
        count = bisect_left(numbers, True, key=lambda n: self._cluster.fit(wish, future(n)) is not None)
        at_s = endings[count - 1].in_s if 0 < count <= len(endings) else 0.0
        if not math.isinf(at_s):
            count += sum(one.in_s == at_s for one in endings[count:])
        return at_s, future(count)

    def _future(self, ended: Sequence[Counts]) -> dict[str, int]:
        """What is free once these have ended, besides what is kept for the jobs before."""
        future = added(self._free, ended)
        for one in self.reservations:
            for host, taken in one.shares.items():
                future[host] -= taken
        return future


def place_jobs(
    queue: Iterable[Waiting], hosts: Iterable[HostSlots], live: Sequence[Live] = (), quotas: Iterable[Quota] = ()
) -> Pass:
    """What is decided on a whole queue, given in its order."""
    one = Pass(hosts, live, quotas)
    one.take(queue)
    return one
