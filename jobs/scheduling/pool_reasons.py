"""Says why a job waits in a Slurm pool, or why no pool takes it. Pure; used by `jobs.scheduling.queue`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from jobs.model.pools import PREFIX
from jobs.scheduling.placement_rows import RegisteredPool
from jobs.scheduling.shortage import Shortage, slots_asked
from jobs.scheduling.slots import SlotRequest
from jobs.suggestions import similar_to

_MOST_NAMED = 5
# Slurm's words for why a job waits, and what they mean.
_WORDS = {
    "None": "Slurm has not looked at it yet",
    "Priority": "jobs that come first in Slurm wait too",
    "Resources": "its nodes are in use",
    "BeginTime": "Slurm lets it begin later",
    "Cleaning": "Slurm is still ending an earlier one",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "the partition starts no jobs now",
    "PartitionInactive": "the partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "it asks for more time than the partition allows",
    "BadConstraints": "no node has all that it asks for",
    "Licenses": "it waits for a licence",
    "Reservation": "it waits for a reservation",
    "JobHeldAdmin": "an administrator of Slurm holds it",
    "JobHeldUser": "somebody holds it with `scontrol hold`",
}


class PoolWaiting(Protocol):
    """How far Slurm is with a job: a `jobs.scheduling.allocations.PoolWait`."""

    @property
    def pool(self) -> str: ...
    @property
    def slurm_job(self) -> int | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def expected_at(self) -> datetime | None: ...
    @property
    def problem(self) -> str | None: ...


def waits_in_slurm(waiting: PoolWaiting) -> str:
    """Why a job waits that was handed to Slurm: a sentence without its full stop."""
    if waiting.slurm_job is None:
        if waiting.problem is not None:
            return f"{waiting.pool} has not got it: {waiting.problem}"
        return f"is handed to {waiting.pool}"
    about = f"waits in {waiting.pool} as Slurm's job {waiting.slurm_job}"
    if waiting.state != "PENDING":
        return f"{about}, which begins"
    expected = (
        "" if waiting.expected_at is None else f"; Slurm expects to start it {waiting.expected_at:%Y-%m-%d %H:%M} UTC"
    )
    return f"{about}: {_in_words(waiting.reason or 'None')}{expected}"


def _in_words(reason: str) -> str:
    if reason in _WORDS:
        return f"{_WORDS[reason]} ({reason})"
    if reason.startswith(("QOS", "Assoc", "MaxSubmit", "MaxJobs")):
        return f"a limit of Slurm for this account or user ({reason})"
    return f"Slurm says {reason}"


def why_no_pool(request: SlotRequest, pools: Sequence[RegisteredPool], *, auto: str) -> str | None:
    """Why no pool takes a job now; None if one does. Only for jobs that may not go to hosts."""
    named = [one for one in pools if one.pool.name == request.pool]
    if not named:
        return f"no worker offers the pool {request.pool}{_known(request, pools)}"
    (pool,) = named
    if not pool.alive:
        return f"the worker of {request.pool} is lost"
    if pool.drained:
        return f"{request.pool} is drained"
    if pool.pool.problem is not None:
        return f"{request.pool} takes no jobs now: {pool.pool.problem}"
    if pool.pool.shape(request, auto=auto) is None:
        return f"needs {slots_asked(request)}, and the nodes of {request.pool} cannot hold that: {_nodes(pool)}"
    return None


def pool_shortage(request: SlotRequest, pools: Sequence[RegisteredPool], *, auto: str) -> Shortage | None:
    """Why the pool that a job names could never hold it. None if it could."""
    named = [one for one in pools if one.pool.name == request.pool]
    if not named:
        return Shortage("pool", str(request.pool), f"no worker offers this pool{_known(request, pools)}")
    if named[0].pool.nodes and named[0].pool.shape(request, auto=auto) is None:
        text = f"more than {request.pool} has: it needs {slots_asked(request)}; {_nodes(named[0])}"
        if request.device == "gpu" and not any(any(node.gpus.values()) for node in named[0].pool.nodes):
            return Shortage("device", "gpu", f"no node of {request.pool} has GPUs: {_nodes(named[0])}")
        return Shortage("gpus", str(request.gpus), text)
    return None


def _known(request: SlotRequest, pools: Sequence[RegisteredPool]) -> str:
    names = [one.pool.name for one in pools]
    partitions = [name.removeprefix(PREFIX) for name in names]
    if similar := similar_to((request.pool or "").removeprefix(PREFIX), partitions):
        return f"; did you mean {PREFIX}{similar}?"
    return f"; there is {', '.join(names[:_MOST_NAMED])}" if names else "; there is none"


def _nodes(pool: RegisteredPool) -> str:
    """What the nodes of a pool have: 2 nodes with 4 GPUs a100 and 64 cores, 1 node with 8 cores."""
    kinds: dict[str, int] = {}
    for node in pool.pool.nodes:
        gpus = [f"{count} GPUs {name}".rstrip() for name, count in node.gpus.items() if count]
        text = " and ".join([*gpus, f"{node.cpus} cores"])
        kinds[text] = kinds.get(text, 0) + 1
    counted = [f"{count} node{'' if count == 1 else 's'} with {text}" for text, count in kinds.items()]
    return ", ".join(counted[:_MOST_NAMED]) or "it has no nodes"
