"""Jobs that wait and attempts that hold slots, for tests of what a pass decides."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from jobs.scheduling.contenders import Account, LiveAttempt, Order, QueuedJob
from jobs.scheduling.slots import SlotClass, SlotRequest


def order(name: str, priority: int = 50) -> Order:
    """Jobs of one priority are sorted by name, as if the first in the alphabet were the oldest."""
    return (-priority, 0.0, name)


def job(name: str, gpus: int = 1, *, priority: int = 50, **fields: Any) -> QueuedJob:
    """A job that waits. Its fields are those of a `QueuedJob` and of a `SlotRequest`."""
    request = {key: fields.pop(key) for key in [*fields] if key in SlotRequest.__dataclass_fields__}
    return QueuedJob(name, order(name, priority), SlotRequest(gpus, **request), **fields)


def live(
    number: int, slots: dict[str, int], *, priority: int = 50, name: str = "0", kind: str = "gpu", **known: Any
) -> LiveAttempt:
    """An attempt that holds so many slots of each of these hosts."""
    return LiveAttempt(number, order(name, priority), {SlotClass(host, kind): n for host, n in slots.items()}, **known)


def lanes_of(jobs: Iterable[QueuedJob]) -> dict[Account, Sequence[QueuedJob]]:
    """The jobs of each account, in the sequence of its lane."""
    in_lanes = sorted(jobs, key=lambda job: (job.account, job.order[0], job.level, job.order))
    return {account: list(lane) for account, lane in groupby(in_lanes, key=lambda job: job.account)}
