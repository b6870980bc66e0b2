"""Decides from which hosts a job's slots can be taken, by the number of slots of each class. Pure.

A class are the slots of a host that are alike. `jobs.scheduling.placement` calls it with the slots that are free, with
those that will be free, and with all slots. `jobs.scheduling.queue_reasons` and `jobs.scheduling.hosts` call it to say
why a job does not fit.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jobs.scheduling.rooms import Choice, Room, Vacancies, fullest_host, host_counts, total_of
from jobs.scheduling.slots import Counts, HostSlots, JoinedPairs, Shares, SlotClass, SlotRequest


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
        self._choices: dict[tuple[frozenset[SlotClass], bool], list[list[Choice]]] = {}
        self.left = dict(self.free)  # of the free slots, those that nobody was given
        self.number_left = sum(self.left.values())
        self._vacancies: dict[Choice, Vacancies] = {}  # of those left
        self._choices_of: dict[SlotClass, list[Vacancies]] = {}
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
        rooms = [
            [(choice, self._room_of(choice, free)) for choice in choices] for choices in self._choices_for(request)
        ]
        rooms = [[(choice, room) for choice, room in choices if total_of(room) >= request.gpus] for choices in rooms]
        if not any(rooms):
            return None
        for number in host_counts(request.gpus, request.placement):
            for choices in rooms:
                shares = _Search(request, number, free, joined).best(choices)
                if shares is not None:
                    return shares
        return None

    def take(self, shares: Shares) -> None:
        """These slots are given to a job: they are not `left` any more."""
        for slots, count in shares:
            self.left[slots] -= count
            self.number_left -= count
            for vacancies in self._choices_of.get(slots, ()):
                vacancies.take(slots.host, count)

    def _room_of(self, choice: Choice, free: Counts) -> Mapping[str, int]:
        if free is not self.left:
            return choice.room(free)
        if choice not in self._vacancies:
            self._vacancies[choice] = vacancies = Vacancies(choice, free)
            for slots in choice.classes:
                self._choices_of.setdefault(slots, []).append(vacancies)
        return self._vacancies[choice]

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

    def _choices_for(self, request: SlotRequest) -> list[list[Choice]]:
        """A choice for each model. Then, for a job that mixes models, one of all: it takes one model where it can."""
        key = self._accepted(request)
        if key not in self._choices:
            classes, (_, mixes) = self.classes(request), key
            by_model: dict[str, list[SlotClass]] = {}
            for slots in classes:
                by_model.setdefault(slots.model, []).append(slots)
            choices = [[Choice(alike, self._peers) for alike in by_model.values()]]
            if mixes:
                choices.append([Choice(classes, self._peers)])
            self._choices[key] = choices
        return self._choices[key]


class _Search:
    """A search for `number` hosts that hold a job with equal shares."""

    def __init__(self, request: SlotRequest, number: int, free: Counts, joined: JoinedPairs | None) -> None:
        self._number = number
        self._share = request.gpus // number
        self._last = request.last_hosts
        self._spread = request.placement == "spread"
        self._free = free
        self._joined_pairs = None if self._spread or self._share == 1 else joined

    def best(self, choices: Iterable[tuple[Choice, Mapping[str, int]]]) -> Shares | None:
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

    def _choose(self, names: Sequence[str], choice: Choice, room: Mapping[str, int]) -> Sequence[str] | None:
        """The best hosts among those that have a share free. None if there are fewer than needed."""
        share, last = self._share, self._last
        if self._number == 1 and not last and not self._spread and self._joined_pairs is None:
            host = fullest_host(room, share)
            return None if host is None else (host,)
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
        else:
            fitting.sort(key=lambda name: (name not in last, room[name]))
        return fitting[: self._number]

    def _rank(self, choice: Choice, room: Mapping[str, int], hosts: Sequence[str]) -> tuple[int, int, int, str]:
        """A sort key: the best hosts have the lowest. Among equally good hosts, the first by name wins."""
        total, lasting = sum(room[name] for name in hosts), sum(name in self._last for name in hosts)
        if self._spread:
            return -total, -lasting, 0, hosts[0]
        return -lasting, -sum(self._joined(choice, name) for name in hosts), total, hosts[0]

    def _joined(self, choice: Choice, host: str) -> int:
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
