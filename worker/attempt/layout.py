"""Which ranks run on which host, and the command line that starts them. Pure.

Used by the launcher, and by what trains without the service.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from worker.attempt.slurm_steps import step

LOCALHOST = "localhost"
LOOPBACK = "lo"
# By default Gloo gives an exchange up after 30 s, so a rank that is stopped for longer would end all ranks. Instead the
# supervisor watches the job's `stall_timeout_s`, and ranks without a supervisor have a lease.
_EXCHANGE_TIMEOUT_S = 86_400


@dataclass(frozen=True)
class HostShare:
    """A host's part of an attempt. `address` is the name that horovodrun uses for it.

    A node of a Slurm pool has `own_gpus`: it knows itself which GPUs Slurm gave, and only gets their number.
    """

    host: str
    address: str
    ranks: Sequence[int]
    gpu_uuids: Sequence[str]
    threads_per_rank: int  # 0: TensorFlow decides
    own_gpus: int = 0
    slots_of_rank: int = 1


@dataclass(frozen=True)
class Layout:
    """All hosts of an attempt, the lead first, and the network interface over which they talk to each other.

    `slurm_job` holds the nodes of an attempt in a pool. All of them have members. The first one finds the interface.
    """

    shares: Sequence[HostShare]
    interface: str
    slurm_job: int | None = None

    @property
    def lead(self) -> HostShare:
        """The host on which the supervisor runs; in a pool the first node."""
        return self.shares[0]

    @property
    def members(self) -> Sequence[HostShare]:
        """The hosts that need a member: all on which the supervisor does not run."""
        return self.shares if self.slurm_job is not None else self.shares[1:]

    @property
    def ranks(self) -> int:
        """The number of ranks on all hosts together."""
        return sum(len(share.ranks) for share in self.shares)

    @property
    def gpus(self) -> int:
        """The number of GPUs or CPU slots on all hosts together."""
        return sum(len(share.ranks) * share.slots_of_rank for share in self.shares)

    def of_strategy(self, strategy: str) -> "Layout":
        """The same slots for the ranks of a job with this strategy: for a rank each, or all for one."""
        if strategy != "mirrored":
            return self
        (share,) = self.shares  # a job in one process was placed on one host
        slots = len(share.ranks)
        one = replace(share, ranks=range(1), slots_of_rank=slots, threads_per_rank=slots * share.threads_per_rank)
        return replace(self, shares=[one])


def on_this_host(ranks: int, *, host: str = LOCALHOST, gpu_uuids: Sequence[str] = (), threads: int = 0) -> Layout:
    """All ranks on one host. They need no network except loopback."""
    return Layout([HostShare(host, LOCALHOST, range(ranks), gpu_uuids, threads)], LOOPBACK)


def threads_of(ranks: int, *, cores: int, slots: int) -> int:
    """Threads of a rank on a CPU slot: its share of the host's cores."""
    return max(1, cores // max(ranks, slots))


def horovodrun_argv(
    layout: Layout, *, launch_dir: Path, ssh_config: Path | None = None, python: str = sys.executable
) -> list[str]:
    """The command that starts the ranks of the trainer on all hosts, through the shim in `worker.horovodrun`."""
    before, reach = list[str](), list[str]()
    if layout.slurm_job is not None:
        before, reach = step(layout.slurm_job, layout.lead.address), ["--slurm-job", str(layout.slurm_job)]
    elif len(layout.shares) > 1:
        names = ",".join(share.host for share in layout.shares)
        reach = ["--ssh-config", str(ssh_config), "--host-names", names]
    interface = ["--network-interfaces", layout.interface] if layout.interface else []
    return [
        *before, python, "-m", "worker.horovodrun", *reach,
        "-np", str(layout.ranks), "-H", ",".join(f"{share.address}:{len(share.ranks)}" for share in layout.shares),
        "--gloo", "--gloo-timeout-seconds", str(_EXCHANGE_TIMEOUT_S), "--disable-cache", *interface,
        python, "-m", "trainer", str(launch_dir),
    ]  # fmt: skip
