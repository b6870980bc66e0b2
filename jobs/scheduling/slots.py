"""Slots as placement counts them, and what a job asks for. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
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
    global_batch: int | None = None  # of all GPUs at a time, if it is fixed: it must divide by the number of GPUs
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
