"""Hosts for tests of placement: with slots of one class, or of several."""

from collections.abc import Sequence

from jobs.scheduling.nvlinks import Links
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass


def class_slots(of: SlotClass, free: int | Sequence[int], capacity: int | None = None) -> ClassSlots:
    """The slots of a class: the number of the free ones, or their indices. All are free if there is no `capacity`."""
    indices = tuple(range(free)) if isinstance(free, int) else tuple(free)
    return ClassSlots(of, indices, len(indices) if capacity is None else capacity)


def alike(
    name: str,
    kind: str,
    free: int | Sequence[int],
    capacity: int | None = None,
    peers: str | None = None,
    links: Links | None = None,
) -> HostSlots:
    """A host whose slots are all alike."""
    return HostSlots(name, (class_slots(SlotClass(name, kind), free, capacity),), peers, links)
