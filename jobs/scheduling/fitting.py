"""Decides from which hosts a job's slots can be taken, by the number of slots on each host. Pure.

`jobs.scheduling.placement` calls it with the slots that are free, with those that will be free, and with all slots.
`jobs.scheduling.queue` and `jobs.scheduling.hosts` call it to say why a job does not fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

Counts = Mapping[str, int]  # slots by host
Shares = tuple[tuple[str, int], ...]  # hosts sorted by rank, and the number of slots on each


@dataclass(frozen=True)
class HostSlots:
    """A host and its slots: the indices of the free ones, and `capacity`, the number that can ever be leased.

    All slots of a host are of one kind. Hosts with the same `peers` can work together. A host without `peers` can hold
    only jobs on a single host.
    """

    host: str
    kind: str  # gpu or cpu
    free: tuple[int, ...]
    capacity: int
    peers: str | None = None


@dataclass(frozen=True)
class SlotRequest:
    """The slots that a job asks for; `last_hosts` are those of its previous attempt, the lead first."""

    gpus: int
    device: str = "auto"  # auto, gpu or cpu
    placement: str = "pack"  # pack, single_host or spread
    last_hosts: tuple[str, ...] = ()
    fewest_gpus: int | None = None  # the fewest GPUs with which it runs; None: `gpus`
    global_batch: int | None = None  # if the global batch is fixed: it must be divisible by the number of GPUs


class Cluster:
    """Hosts, by the kind of their slots, and in groups that can work together on one job."""

    def __init__(self, hosts: Iterable[HostSlots]) -> None:
        self.hosts = {host.host: host for host in sorted(hosts, key=lambda host: host.host)}
        self.free: dict[str, int] = {name: len(host.free) for name, host in self.hosts.items()}
        self.capacity: dict[str, int] = {name: host.capacity for name, host in self.hosts.items()}
        self._of_kind: dict[str, list[str]] = {"gpu": [], "cpu": []}
        groups: dict[tuple[str, str], list[str]] = {}
        for name, host in self.hosts.items():
            self._of_kind[host.kind].append(name)
            if host.peers is not None:
                groups.setdefault((host.kind, host.peers), []).append(name)
        self._groups = groups

    def kinds(self, device: str) -> list[str]:
        """The existing kinds of slots that a job may take, the preferred kind first."""
        return [kind for kind in ("gpu", "cpu") if device in ("auto", kind) and self._of_kind[kind]]

    def sets(self, kind: str, number: int) -> list[list[str]]:
        """The largest sets of hosts such that any `number` of a set can hold a job together."""
        if number == 1:
            return [self._of_kind[kind]]
        return [names for (its_kind, _), names in self._groups.items() if its_kind == kind and len(names) >= number]

    def fit(self, request: SlotRequest, free: Counts) -> Shares | None:
        """The hosts from which the job's slots are taken if these slots are `free`. None if it does not fit.

        A job takes slots of one kind, and the same number of them on each of its hosts. `pack` takes the fewest
        hosts with room, preferring the job's last hosts and then the fullest. `spread` takes the most hosts, preferring
        the emptiest.
        """
        spread = request.placement == "spread"
        for kind in self.kinds(request.device):
            for number in _host_counts(request.gpus, request.placement):
                share = request.gpus // number
                chosen = (_choose(names, number, share, free, request) for names in self.sets(kind, number))
                candidates = [names for names in chosen if names is not None]
                if candidates:
                    best = min(candidates, key=lambda names: _rank(names, free, request.last_hosts, spread=spread))
                    return tuple((name, share) for name in _in_rank_order(best, request.last_hosts))
        return None

    def most(self, request: SlotRequest, counts: Counts) -> tuple[int, int | None]:
        """The most slots on one host, and on hosts that can work together (None if the job needs a single host)."""
        kinds = self.kinds(request.device)
        on_one_host = max((counts[name] for kind in kinds for name in self._of_kind[kind]), default=0)
        groups = [names for kind in kinds for names in self.sets(kind, 2)]
        if request.placement == "single_host" or request.gpus == 1 or not groups:
            return on_one_host, None
        return on_one_host, max(sum(counts[name] for name in names) for names in groups)

    def attainable(self, request: SlotRequest) -> SlotRequest | None:
        """The request with the number of GPUs that the job waits for. None if these hosts can never hold it.

        The job waits for all GPUs that it asks for. If the hosts are too small, it waits for the
        greatest number that they can hold and that divides its batch, unless that is less than its `fewest_gpus`.
        """
        fewest = request.gpus if request.fewest_gpus is None else request.fewest_gpus
        for gpus in range(request.gpus, fewest - 1, -1):
            if request.global_batch is None or request.global_batch % gpus == 0:
                fewer = replace(request, gpus=gpus)
                if self.fit(fewer, self.capacity) is not None:
                    return fewer
        return None


@cache
def _host_counts(gpus: int, placement: str) -> tuple[int, ...]:
    """The numbers of hosts over which this many GPUs can be spread, the preferred number first."""
    if placement == "single_host":
        return (1,)
    divisors = tuple(number for number in range(1, gpus + 1) if gpus % number == 0)
    return divisors[::-1] if placement == "spread" else divisors


def _choose(names: Sequence[str], number: int, share: int, free: Counts, request: SlotRequest) -> Sequence[str] | None:
    """The best `number` hosts among those that have a share free. None if there are fewer."""
    fitting = [name for name in names if free[name] >= share]
    if len(fitting) < number:
        return None
    last = request.last_hosts
    if number == 1 and not last and request.placement != "spread":
        return (min(fitting, key=free.__getitem__),)  # of equal ones the first by name, because they are sorted
    if request.placement == "spread":
        fitting.sort(key=lambda name: (-free[name], name not in last))
    else:
        fitting.sort(key=lambda name: (name not in last, free[name]))
    return fitting[:number]


def _rank(names: Sequence[str], free: Counts, last: Sequence[str], *, spread: bool) -> tuple[int, int, str]:
    """A sort key: the best host has the lowest. Among equally good hosts, the first by name wins."""
    total, lasting = sum(free[name] for name in names), sum(name in last for name in names)
    return (-total, -lasting, names[0]) if spread else (-lasting, total, names[0])


def _in_rank_order(names: Sequence[str], last: Sequence[str]) -> Iterator[str]:
    """The hosts of the previous attempt in its sequence, so that its lead leads again. Then the others by name."""
    yield from (name for name in last if name in names)
    yield from sorted(name for name in names if name not in last)
