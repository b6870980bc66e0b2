"""What a pass over the queue decides: where a job goes, and which attempts are preempted for it. Pure.

`jobs.scheduling.placement` decides; `jobs.scheduling.placing` and `jobs.scheduling.allocations` carry it out.
"""

from dataclasses import dataclass

from jobs.scheduling.pools import Shape


@dataclass(frozen=True)
class Share:
    """The slots that a job gets on one host, and the device of each: the model of a GPU, or `cpu`."""

    host: str
    slots: tuple[int, ...]
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where a job goes: its ranks go to the slots of the first share, then to those of the second, and so on.

    The first share's host is the lead. If the job passed others that wait, it may be preempted after `due_s` seconds.
    In a `pool` the shares are its nodes, and the pool's worker leads.
    """

    job_id: str
    shares: tuple[Share, ...]
    due_s: float | None = None
    pool: str | None = None

    @property
    def lead(self) -> str:
        """The host or pool whose worker supervises the attempt."""
        return self.pool or self.shares[0].host

    @property
    def slots(self) -> list[tuple[str, int]]:
        """Host and index of each slot, sorted by rank."""
        return [(share.host, index) for share in self.shares for index in share.slots]

    @property
    def gpus(self) -> int:
        """How many slots it takes."""
        return sum(len(share.slots) for share in self.shares)

    def to_json(self) -> list[dict[str, object]]:
        """The form in which the attempt's row and its event store it. The devices of a host may change later."""
        return [
            {"host": share.host, "slots": list(share.slots), "devices": list(share.devices)} for share in self.shares
        ]


@dataclass(frozen=True)
class PooledJob:
    """A job that Slurm is asked to find nodes for."""

    job_id: str
    pool: str
    shape: Shape

    @property
    def gpus(self) -> int:
        """How many slots it takes."""
        return self.shape.gpus


@dataclass(frozen=True)
class Preemption:
    """Attempts that are preempted so that a job can start."""

    job_id: str
    attempt_ids: tuple[int, ...]
