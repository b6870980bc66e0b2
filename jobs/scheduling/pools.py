"""Pools: partitions of Slurm that take whole attempts. Decides which nodes a job would need there. Pure.

Slurm decides when a job begins, and on which nodes. So what counts here is only what the nodes could hold if they were
empty. `jobs.scheduling.placement` calls it for jobs that no host has room for, and `jobs.scheduling.queue` and
`jobs.scheduling.hosts` to say why a job does not fit.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jobs.scheduling.fitting import Cluster
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest

# In the state of a node. One that is powered_down to save power comes up for a job.
_DOWN = re.compile(r"(?<!_)down|fail|no_respond|\*")
_UNUSABLE = re.compile(f"{_DOWN.pattern}|drain|maint|error|inval|unk|future")


@dataclass(frozen=True)
class PoolNode:
    """A node of a pool, as Slurm knows it. `gpus` counts them by type; the type is empty where Slurm knows none."""

    name: str
    state: str  # idle, mixed, allocated, down and others
    cpus: int
    memory_bytes: int
    gpus: Mapping[str, int]
    features: Sequence[str] = ()

    @property
    def is_up(self) -> bool:
        """Whether Slurm starts jobs there, now or when there is room."""
        return _UNUSABLE.search(self.state) is None

    @property
    def is_down(self) -> bool:
        """Whether it failed, or does not answer Slurm."""
        return _DOWN.search(self.state) is not None

    def holds(self, shape: "Shape") -> bool:
        """Whether it could hold its part of an attempt."""
        if shape.feature is not None and shape.feature not in self.features:
            return False
        if shape.kind == "cpu":
            return self.cpus >= shape.ranks
        return sum(count for name, count in self.gpus.items() if shape.gpu_type in (None, name)) >= shape.ranks

    def to_json(self) -> dict[str, Any]:
        """The form in which the pool's row has it."""
        return {**asdict(self), "features": list(self.features)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "PoolNode":
        """A node from its row."""
        return cls(**{name: value for name, value in document.items() if name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Shape:
    """What an attempt asks Slurm for: equal parts of some nodes. `ranks` are those of one node."""

    nodes: int
    ranks: int
    kind: str  # gpu or cpu
    gpu_type: str | None = None  # of all its GPUs; None: any
    feature: str | None = None  # that its nodes must have

    @property
    def gpus(self) -> int:
        """The number of its ranks."""
        return self.nodes * self.ranks


@dataclass(frozen=True)
class Pool:
    """A pool and its nodes. `problem` says why it takes no jobs now; None: it does."""

    name: str
    nodes: Sequence[PoolNode]
    problem: str | None = None

    def shape(self, request: SlotRequest, *, auto: str) -> Shape | None:
        """What a job asks this pool for. None if its nodes can never hold the job.

        `auto` is the kind of slots for jobs with `device: auto`.
        """
        cluster = Cluster(map(self._slots_of, self.nodes), auto=auto)
        attainable = cluster.attainable(replace(request, last_hosts=()))
        shares = None if attainable is None else cluster.fit(attainable, cluster.capacity)
        if attainable is None or shares is None:
            return None
        nodes = len({slots.host for slots, _ in shares})
        kind, models = shares[0][0].kind, {slots.model for slots, _ in shares}
        ranks = attainable.gpus // nodes
        if kind == "cpu":
            return Shape(nodes, ranks, kind)
        types = {name for node in self.nodes for name in node.gpus if name}
        must_be_alike = nodes > 1 and not request.mixed_gpus
        model = next(iter(models)) if len(models) == 1 and (request.gpu_model is not None or must_be_alike) else None
        if model in types:
            return Shape(nodes, ranks, kind, gpu_type=model)
        return Shape(nodes, ranks, kind, feature=_feature(model, request.gpu_model))

    def _slots_of(self, node: PoolNode) -> HostSlots:
        named = " ".join(node.features)
        gpus = [SlotClass(node.name, "gpu", model or named) for model in node.gpus]
        counts = dict(zip(gpus, node.gpus.values(), strict=True)) | {SlotClass(node.name, "cpu"): node.cpus}
        return HostSlots(
            node.name, tuple(ClassSlots(of, (), count) for of, count in counts.items() if count), peers=self.name
        )


def to_avoid(nodes: Sequence[PoolNode], shape: Shape, failing: Sequence[str]) -> list[str]:
    """Those of the failing nodes, the worst first, without which Slurm still has enough nodes for an attempt."""
    avoided: list[str] = []
    for name in dict.fromkeys(name for name in failing if any(node.name == name for node in nodes)):
        others = [node for node in nodes if node.is_up and node.holds(shape) and node.name not in (*avoided, name)]
        if len(others) >= shape.nodes:
            avoided.append(name)
    return avoided


def _feature(features: str | None, wanted: str | None) -> str | None:
    """The feature of a node that says that it has the GPUs a job wants, where Slurm knows no types of GPUs."""
    if features is None or wanted is None:
        return None
    return next((feature for feature in features.split() if wanted.lower() in feature.lower()), None)


def first_that_fits(pools: Iterable[Pool], request: SlotRequest, *, auto: str) -> tuple[Pool, Shape] | None:
    """The pool that takes a job, and what the job asks it for. None if no pool takes it now."""
    for pool in pools:
        if pool.problem is None and request.pool in (None, pool.name):
            shape = pool.shape(request, auto=auto)
            if shape is not None:
                return pool, shape
    return None
