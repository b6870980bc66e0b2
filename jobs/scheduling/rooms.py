"""How many slots hosts have for a job, and how that changes while slots are taken or become free. Pure.

`jobs.scheduling.fitting` chooses hosts with it.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from jobs.scheduling.slots import Counts, SlotClass, SlotRequest


class Choice:
    """Classes of which a job may take any: of one model, or of several for a job that mixes them."""

    def __init__(self, classes: Sequence[SlotClass], peers: Mapping[str, str | None]) -> None:
        self._classes = [(slots.host, slots) for slots in classes]  # sorted by host
        self.of_host: dict[str, list[SlotClass]] = {}
        for host, slots in self._classes:
            self.of_host.setdefault(host, []).append(slots)
        self.classes = classes
        self._hosts = list(self.of_host)
        self.group_of = {host: peers[host] for host in self._hosts}
        self._groups: dict[str, list[str]] = {}
        for host, group in self.group_of.items():
            if group is not None:
                self._groups.setdefault(group, []).append(host)

    def room(self, counts: Counts) -> dict[str, int]:
        """The slots by host, without hosts that have none."""
        if len(self.of_host) == len(self._classes):  # a faster way for the usual hosts
            return {host: count for host, slots in self._classes if (count := counts[slots]) > 0}
        room: dict[str, int] = {}
        for host, slots in self._classes:
            if counts[slots] > 0:
                room[host] = room.get(host, 0) + counts[slots]
        return room

    def sets(self, number: int) -> list[list[str]]:
        """The largest sets of hosts such that any `number` of a set can hold a job together."""
        if number == 1:
            return [self._hosts]
        return [hosts for hosts in self._groups.values() if len(hosts) >= number]


class Vacancies(dict[str, int]):
    """The free slots of a choice by host, without hosts that have none, while jobs take some of them."""

    def __init__(self, choice: Choice, free: Counts) -> None:
        super().__init__(choice.room(free))
        self.total = sum(self.values())
        self._hosts_by_room: dict[int, list[str]] = {}  # heaps; entries of hosts that have another number now are void
        for host, count in self.items():
            self._hosts_by_room.setdefault(count, []).append(host)  # sorted, so each is a heap

    def take(self, host: str, count: int) -> None:
        """These slots of a host are free no more."""
        self.total -= count
        self[host] = left = self[host] - count  # it keeps its place in the sequence
        if left > 0:
            heapq.heappush(self._hosts_by_room.setdefault(left, []), host)
        else:
            del self[host]

    def fullest(self, share: int) -> str | None:
        """Of the hosts that have a share free, the first one by name of those that have the least. None: there is none.

        It says the same as a look at every host.
        """
        for room in sorted(room for room in self._hosts_by_room if room >= share):
            hosts = self._hosts_by_room[room]
            while hosts and self.get(hosts[0]) != room:
                heapq.heappop(hosts)
            if hosts:
                return hosts[0]
        return None


class Room:
    """Slots that become free or taken one after the other, and whether a job with one request fits into the free ones.

    It says at once whether `Cluster.fit` would find a place, without looking at every host again.
    """

    def __init__(self, request: SlotRequest, choices: Iterable[Choice], free: Counts) -> None:
        self._shares = [(number, request.gpus // number) for number in host_counts(request.gpus, request.placement)]
        self._tallies = [_Tally(choice) for choice in choices]
        self._of: dict[SlotClass, list[_Tally]] = {}
        for tally in self._tallies:
            for slots in tally.classes:
                self._of.setdefault(slots, []).append(tally)
        self.add(free)

    def add(self, slots: Counts, times: int = 1) -> None:
        """These slots become free. With -1 `times`, they are free no more."""
        for of, count in slots.items():
            for tally in self._of.get(of, ()):
                tally.add(of, times * count)

    def first_to_hold(self, ended: Iterable[Counts]) -> int:
        """Add these slots until the job fits. Returns how many were added; one more than there are: it never fits."""
        count = 0
        for count, slots in enumerate(ended, 1):
            if self.holds():
                return count - 1
            self.add(slots)
        return count if self.holds() else count + 1

    def holds(self) -> bool:
        """Whether the job fits now."""
        return any(tally.has(number, share) for tally in self._tallies for number, share in self._shares)


class _Tally:
    """How many hosts of a choice have room for a share, for each size of a share and each group of hosts."""

    def __init__(self, choice: Choice) -> None:
        self.classes = choice.classes
        self._group_of = choice.group_of
        self._free: Counter[SlotClass] = Counter()
        self._room: Counter[str] = Counter()
        self._with_room: dict[str | None, Counter[int]] = {group: Counter() for group in choice.group_of.values()}

    def add(self, slots: SlotClass, count: int) -> None:
        before = self._free[slots]
        self._free[slots] = now = before + count
        room = self._room[slots.host]
        self._room[slots.host] = more = room + max(now, 0) - max(before, 0)
        with_room = self._with_room[self._group_of[slots.host]]
        for share in range(room + 1, more + 1):
            with_room[share] += 1
        for share in range(more + 1, room + 1):
            with_room[share] -= 1

    def has(self, number: int, share: int) -> bool:
        """Whether so many hosts that can work together have room for a share each."""
        return any(
            with_room[share] >= number
            for group, with_room in self._with_room.items()
            if number == 1 or group is not None
        )


def total_of(room: Mapping[str, int]) -> int:
    """The slots of all hosts."""
    return room.total if isinstance(room, Vacancies) else sum(room.values())


def fullest_host(room: Mapping[str, int], share: int) -> str | None:
    """The first host by name of those with the least room for a share."""
    if isinstance(room, Vacancies):
        return room.fullest(share)
    fitting = (host for host, count in room.items() if count >= share)
    return min(fitting, key=room.__getitem__, default=None)  # the first by name, because they are sorted


@cache
def host_counts(gpus: int, placement: str) -> tuple[int, ...]:
    """The numbers of hosts over which this many GPUs can be spread, the preferred number first."""
    if placement == "single_host":
        return (1,)
    divisors = tuple(number for number in range(1, gpus + 1) if gpus % number == 0)
    return divisors[::-1] if placement == "spread" else divisors
