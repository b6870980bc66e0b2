"""Which waiting jobs go where: pure, from the queue and the free slots. Called by the dispatcher.

The queue is taken in order: priority, then age. A job gets all its slots or none. Of the hosts that can hold it
the one with the fewest free slots gets it, so that large holes stay for large jobs. A job that fits nowhere may
be passed by smaller ones until it has waited `patience_s`; from then on nothing passes it, so it cannot starve.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A queued job, in the queue's order."""

    job_id: str
    gpus: int
    device: str  # auto, gpu or cpu
    waited_s: float


@dataclass(frozen=True)
class FreeSlots:
    """The free slots of a host; all of a host's slots are of one kind: gpu or cpu."""

    host: str
    kind: str
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """Rank i of the job goes to slot `slots[i]` of `host`."""

    job_id: str
    host: str
    slots: tuple[int, ...]


def place_jobs(queue: Sequence[Waiting], hosts: Sequence[FreeSlots], *, patience_s: float) -> list[Placement]:
    """The placements to make now, in the queue's order."""
    free = {host.host: host for host in hosts}
    placements = []
    for job in queue:
        host = _best_host(job, list(free.values()))
        if host is None:
            if job.waited_s > patience_s:
                break
            continue
        taken, left = host.indices[: job.gpus], host.indices[job.gpus :]
        placements.append(Placement(job.job_id, host.host, taken))
        free[host.host] = FreeSlots(host.host, host.kind, left)
    return placements


def _best_host(job: Waiting, hosts: Sequence[FreeSlots]) -> FreeSlots | None:
    """The fullest host that can hold the job; a GPU host before a CPU host where the job takes either."""
    fitting = [host for host in hosts if job.device in ("auto", host.kind) and len(host.indices) >= job.gpus]
    return min(fitting, key=lambda host: (host.kind == "cpu", len(host.indices), host.host), default=None)
