"""Decides from which hosts a job's slots can be taken, by the number of slots of each class. Pure.

A class are the slots of a host that are alike. `jobs.scheduling.placement` calls it with the slots that are free, with
those that will be free, and with all slots. `jobs.scheduling.queue` and `jobs.scheduling.hosts` call it to say why a
job does not fit.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

from jobs.scheduling.nvlinks import Links


class SlotClass(NamedTuple):
    """Slots of a host that are alike: of one kind, and if they are GPUs of one model with equal memory."""

    host: str
    kind: str  # gpu or cpu
    model: str = ""  # the GPU's name; CPU slots have none
    memory_bytes: int = 0  # of the GPU; 0: not known

    @property
    def device(self) -> str:
        """What a rank runs on here: the model of a GPU, or `cpu`."""
        return self.model or self.kind


Counts = Mapping[SlotClass, int]  # slots by class
Shares = tuple[tuple[SlotClass, int], ...]  # sorted by rank, with the number of slots; classes of a host are neighbours
JoinedPairs = Callable[[SlotClass, int], int]  # among the GPUs that a job with so many slots of a class would get


@dataclass(frozen=True)
class ClassSlots:
    """The slots of a class: the indices of the free ones, and `capacity`, the number that can ever be leased."""

    of: SlotClass
    free: tuple[int, ...]
    capacity: int


@dataclass(frozen=True)
class HostSlots:
    """A host and its slots, by class.

    Hosts with the same `peers` can work together. A host without `peers` can hold only jobs on a single host.
    """

    host: str
    classes: tuple[ClassSlots, ...]
    peers: str | None = None
    links: Links | None = None  # between its GPUs; None: there are none


@dataclass(frozen=True)
class SlotRequest:
    """The slots that a job asks for; `last_hosts` are those of its previous attempt, the lead first.

    `gpu_model`, `gpu_memory_gb` and `mixed_gpus` choose GPUs, as in a spec. `pool` is the only one that may take the
    job; None: any host or pool.
    """

    gpus: int
    device: str = "auto"  # auto, gpu or cpu
    placement: str = "pack"  # pack, single_host or spread
    last_hosts: tuple[str, ...] = ()
    fewest_gpus: int | None = None  # the fewest GPUs with which it runs; None: `gpus`
    global_batch: int | None = None  # if the global batch is fixed: it must be divisible by the number of GPUs
    gpu_model: str | None = None
    gpu_memory_gb: float | None = None
    mixed_gpus: bool = False
    pool: str | None = None

    def __hash__(self) -> int:
        """Remembered: a pass looks up the request of every job."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(vars(self)[name] for name in self.__dataclass_fields__))

    @property
    def chooses_gpus(self) -> bool:
        """Whether it takes GPUs only, because it says which."""
        return self.gpu_model is not None or self.gpu_memory_gb is not None or self.mixed_gpus

    def accepts(self, slots: SlotClass) -> bool:
        """Whether slots of the right kind are of a model and a memory that it accepts."""
        is_model = self.gpu_model is None or self.gpu_model.lower() in slots.model.lower()
        return is_model and (self.gpu_memory_gb is None or slots.memory_bytes >= self.gpu_memory_gb * 1e9)


class _Choice:
    """Classes of which a job may take any: of one model, or of several for a job that mixes them."""

    def __init__(self, classes: Sequence[SlotClass], peers: Mapping[str, str | None]) -> None:
        self._classes = [(slots.host, slots) for slots in classes]  # sorted by host
        self.of_host: dict[str, list[SlotClass]] = {}
        for host, slots in self._classes:
            self.of_host.setdefault(host, []).append(slots)
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


class Room:
    """Slots that become free or taken one after the other, and whether a job with one request fits into the free ones.

    It says at once whether `Cluster.fit` would find a place, without looking at every host again.
    """

    def __init__(self, request: SlotRequest, choices: Iterable[_Choice], free: Counts) -> None:
        self._shares = [(number, request.gpus // number) for number in _host_counts(request.gpus, request.placement)]
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

    def __init__(self, choice: _Choice) -> None:
        self.classes = [slots for classes in choice.of_host.values() for slots in classes]
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


class Cluster:
    """Hosts and their slots. `auto` is the kind that a job with `device: auto` takes; None: GPUs if a host has any."""

    def __init__(self, hosts: Iterable[HostSlots], *, auto: str | None = None) -> None:
        self.hosts = {host.host: host for host in sorted(hosts, key=lambda host: host.host)}
        classes = sorted((slots for host in self.hosts.values() for slots in host.classes), key=lambda slots: slots.of)
        self.free: dict[SlotClass, int] = {slots.of: len(slots.free) for slots in classes}
        self.capacity: dict[SlotClass, int] = {slots.of: slots.capacity for slots in classes}
        self.auto = auto or ("gpu" if any(slots.kind == "gpu" for slots in self.capacity) else "cpu")
        self._peers = {name: host.peers for name, host in self.hosts.items()}
        self._alike = {slots._replace(host="") for slots in self.capacity}
        self._accepted_by: dict[tuple[object, ...], tuple[frozenset[SlotClass], bool]] = {}
        self._choices: dict[tuple[frozenset[SlotClass], bool], list[list[_Choice]]] = {}
        self._fits_empty: dict[Hashable, bool] = {}

    def kind_for(self, request: SlotRequest) -> str:
        """The kind of the slots that a job takes. It does not depend on what is free: a job waits for its kind."""
        if request.device != "auto":
            return request.device
        return "gpu" if request.chooses_gpus else self.auto

    def classes(self, request: SlotRequest) -> list[SlotClass]:
        """The classes of which a job may take slots."""
        kind = self.kind_for(request)
        return [slots for slots in self.capacity if slots.kind == kind and request.accepts(slots)]

    def fit(self, request: SlotRequest, free: Counts, joined: JoinedPairs | None = None) -> Shares | None:
        """The classes from which the job's slots are taken if these slots are `free`. None if it does not fit.

        A job takes the same number of slots on each of its hosts, of one model unless it mixes them. `pack` takes the
        fewest hosts with room. Of these it prefers the job's last hosts, then those where the most pairs of its GPUs
        are `joined`, then the fullest. `spread` takes the most hosts, preferring the emptiest.
        """
        rooms = [[(choice, choice.room(free)) for choice in choices] for choices in self._choices_for(request)]
        rooms = [
            [(choice, room) for choice, room in choices if sum(room.values()) >= request.gpus] for choices in rooms
        ]
        if not any(rooms):
            return None
        for number in _host_counts(request.gpus, request.placement):
            for choices in rooms:
                found = _Search(request, number, free, joined).best(choices)
                if found is not None:
                    return found
        return None

    def most(self, request: SlotRequest, counts: Counts) -> tuple[int, int | None]:
        """The most slots on one host, and on hosts that can work together (None if the job needs a single host)."""
        rooms = [(choice, choice.room(counts)) for choice in self._choices_for(request)[-1]]
        on_one_host = max((count for _, room in rooms for count in room.values()), default=0)
        groups = [(room, hosts) for choice, room in rooms for hosts in choice.sets(2)]
        if request.placement == "single_host" or request.gpus == 1 or not groups:
            return on_one_host, None
        return on_one_host, max(sum(room.get(host, 0) for host in hosts) for room, hosts in groups)

    def attainable(self, request: SlotRequest) -> SlotRequest | None:
        """The request with the number of GPUs that the job waits for. None if these hosts can never hold it.

        The job waits for all GPUs that it asks for. If the hosts are too small, it waits for the
        greatest number that they can hold and that divides its batch, unless that is less than its `fewest_gpus`.
        """
        fewest = request.gpus if request.fewest_gpus is None else request.fewest_gpus
        for gpus in range(request.gpus, fewest - 1, -1):
            if request.global_batch is None or request.global_batch % gpus == 0:
                fewer = replace(request, gpus=gpus)
                places = self.places(fewer)
                if places not in self._fits_empty:
                    self._fits_empty[places] = self.fit(fewer, self.capacity) is not None
                if self._fits_empty[places]:
                    return fewer
        return None

    def room(self, request: SlotRequest, free: Counts) -> Room:
        """The same as `fit` for slots that become free one after the other."""
        return Room(request, [choice for choices in self._choices_for(request) for choice in choices], free)

    def places(self, request: SlotRequest) -> Hashable:
        """Equal for requests of which all fit or none, whatever is free."""
        return request.gpus, request.placement, self._accepted(request)

    def _accepted(self, request: SlotRequest) -> tuple[frozenset[SlotClass], bool]:
        """Which GPUs or CPU slots it accepts, on any host, and whether it mixes them."""
        key = (self.kind_for(request), request.gpu_model, request.gpu_memory_gb, request.mixed_gpus)
        if key not in self._accepted_by:
            accepted = frozenset(one for one in self._alike if one.kind == key[0] and request.accepts(one))
            self._accepted_by[key] = accepted, request.mixed_gpus and len({one.model for one in accepted}) > 1
        return self._accepted_by[key]

    def _choices_for(self, request: SlotRequest) -> list[list[_Choice]]:
        """A choice for each model. Then, for a job that mixes models, one of all: it takes one model where it can."""
        key = self._accepted(request)
        if key not in self._choices:
            classes, (_, mixes) = self.classes(request), key
            by_model: dict[str, list[SlotClass]] = {}
            for slots in classes:
                by_model.setdefault(slots.model, []).append(slots)
            choices = [[_Choice(alike, self._peers) for alike in by_model.values()]]
            if mixes:
                choices.append([_Choice(classes, self._peers)])
            self._choices[key] = choices
        return self._choices[key]


@cache
def _host_counts(gpus: int, placement: str) -> tuple[int, ...]:
    """The numbers of hosts over which this many GPUs can be spread, the preferred number first."""
    if placement == "single_host":
        return (1,)
    divisors = tuple(number for number in range(1, gpus + 1) if gpus % number == 0)
    return divisors[::-1] if placement == "spread" else divisors


class _Search:
    """A search for `number` hosts that hold a job with equal shares."""

    def __init__(self, request: SlotRequest, number: int, free: Counts, joined: JoinedPairs | None) -> None:
        self._number = number
        self._share = request.gpus // number
        self._last = request.last_hosts
        self._spread = request.placement == "spread"
        self._free = free
        self._joined_pairs = None if self._spread or self._share == 1 else joined

    def best(self, choices: Iterable[tuple[_Choice, Mapping[str, int]]]) -> Shares | None:
        """The shares on the best hosts of these choices, which have so much room. None if none holds the job."""
        chosen = (
            (choice, room, hosts)
            for choice, room in choices
            for names in choice.sets(self._number)
            if (hosts := self._choose(names, choice, room)) is not None
        )
        best = min(chosen, key=lambda one: self._rank(*one), default=None)
        if best is None:
            return None
        choice, _, hosts = best
        return tuple(part for host in _in_rank_order(hosts, self._last) for part in self._split(choice.of_host[host]))

    def _choose(self, names: Sequence[str], choice: _Choice, room: Mapping[str, int]) -> Sequence[str] | None:
        """The best hosts among those that have a share free. None if there are fewer than needed."""
        share, last = self._share, self._last
        if self._number == 1:
            fitting = [name for name, count in room.items() if count >= share]  # in the same sequence, but faster
        else:
            fitting = [name for name in names if name in room and room[name] >= share]
        if len(fitting) < self._number:
            return None
        if self._spread:
            fitting.sort(key=lambda name: (-room[name], name not in last))
        elif self._joined_pairs is not None:
            fitting.sort(key=lambda name: (name not in last, -self._joined(choice, name), room[name]))
        elif self._number == 1 and not last:
            return (min(fitting, key=room.__getitem__),)  # of equal ones the first by name, because they are sorted
        else:
            fitting.sort(key=lambda name: (name not in last, room[name]))
        return fitting[: self._number]

    def _rank(self, choice: _Choice, room: Mapping[str, int], hosts: Sequence[str]) -> tuple[int, int, int, str]:
        """A sort key: the best hosts have the lowest. Among equally good hosts, the first by name wins."""
        total, lasting = sum(room[name] for name in hosts), sum(name in self._last for name in hosts)
        if self._spread:
            return -total, -lasting, 0, hosts[0]
        return -lasting, -sum(self._joined(choice, name) for name in hosts), total, hosts[0]

    def _joined(self, choice: _Choice, host: str) -> int:
        if self._joined_pairs is None:
            return 0
        return sum(self._joined_pairs(slots, count) for slots, count in self._split(choice.of_host[host]))

    def _split(self, classes: Sequence[SlotClass]) -> Shares:
        """How many slots of each class of a host the job takes: of as few classes as possible, and large gaps stay."""
        if len(classes) == 1:
            return ((classes[0], self._share),)
        whole = [slots for slots in classes if self._free[slots] >= self._share]
        if whole:
            return ((min(whole, key=self._free.__getitem__), self._share),)
        parts, missing = [], self._share
        for slots in sorted(classes, key=self._free.__getitem__, reverse=True):
            count = min(max(self._free[slots], 0), missing)
            missing -= count
            if count:
                parts.append((slots, count))
        return tuple(parts)


def _in_rank_order(names: Sequence[str], last: Sequence[str]) -> Iterator[str]:
    """The hosts of the previous attempt in its sequence, so that its lead leads again. Then the others by name."""
    yield from (name for name in last if name in names)
    yield from sorted(name for name in names if name not in last)
