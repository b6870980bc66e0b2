"""Which waiting jobs go where: pure, from the queue and the free slots. Called by the dispatcher.

The queue is taken in order: priority, then age. A job gets all its slots or none. Of the hosts that can hold it
the one with the fewest free slots gets it, so that large holes stay for large jobs. A job that fits nowhere may
be passed by others until it has waited `patience_s`; from then on the hosts that can hold it once they are empty
are kept for it, so it cannot starve, and a job that no host can hold keeps nobody waiting. A job that is restarted
may make do with fewer GPUs than it asks for, when no host has so many any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Waiting:
    """A queued job, in the queue's order."""

    job_id: str
    gpus: int
    device: str  # auto, gpu or cpu
    waited_s: float
    fewest_gpus: int | None = None  # with how few it makes do; None: with no fewer than `gpus`
    global_batch: int | None = None  # what its GPUs have to divide, where it has to stay


@dataclass(frozen=True)
class FreeSlots:
    """The free slots of a host, of `capacity` that can be leased at all; all of a host's slots are of one kind."""

    host: str
    kind: str  # gpu or cpu
    indices: tuple[int, ...]
    capacity: int


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


def place_jobs(queue: Sequence[Waiting], hosts: Sequence[FreeSlots], *, patience_s: float) -> list[Placement]:
    """The placements to make now, in the queue's order."""
    free = {host.host: host for host in hosts}
    kept: set[str] = set()
    placements = []
    for waiting in queue:
        job = replace(waiting, gpus=gpus_of(waiting, hosts))
        host = _best_host(job, [host for name, host in free.items() if name not in kept])
        if host is None:
            if job.waited_s > patience_s:
                kept |= {host.host for host in hosts if _takes(job, host) and host.capacity >= job.gpus}
            continue
        taken, left = host.indices[: job.gpus], host.indices[job.gpus :]
        placements.append(Placement(job.job_id, (Share(host.host, taken),)))
        free[host.host] = replace(host, indices=left)
    return placements


def gpus_of(job: Waiting, hosts: Sequence[FreeSlots]) -> int:
    """How many GPUs the job waits for: all that it asks for, or fewer where no host has so many.

    Then it is the most that the largest host has and that divide its batch, if that is enough for the job.
    """
    most = max((host.capacity for host in hosts if _takes(job, host)), default=0)
    if job.fewest_gpus is None or most >= job.gpus:
        return job.gpus
    counts = range(most, job.fewest_gpus - 1, -1)
    return next((gpus for gpus in counts if job.global_batch is None or job.global_batch % gpus == 0), job.gpus)


def _takes(job: Waiting, host: FreeSlots) -> bool:
    return job.device in ("auto", host.kind)


def _best_host(job: Waiting, hosts: Sequence[FreeSlots]) -> FreeSlots | None:
    """The fullest host that can hold the job; a GPU host before a CPU host where the job takes either."""
    fitting = [host for host in hosts if _takes(job, host) and len(host.indices) >= job.gpus]
    return min(fitting, key=lambda host: (host.kind == "cpu", len(host.indices), host.host), default=None)
