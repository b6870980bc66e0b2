"""Since when nobody has used the slots of an attempt, by their samples, and what follows. Pure.

Used by `jobs.telemetry.idle_watch`. Times are ticks, as PostgreSQL counts them, by the clock of the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jobs.model.spec import IdleSpec
from jobs.views.idle import IdleNotice


class SlotUse(NamedTuple):
    """The samples of a slot that could be read, sorted by time."""

    ticks: npt.NDArray[np.int64]
    percent: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """No slot was used from `since` to `until`. `since` may be later: then a slot was used after what is judged."""

    since: int
    until: int

    @classmethod
    def empty(cls, at: int) -> "Stretch":
        """The stretch of an attempt of which nothing is known before `at`."""
        return cls(at, at)


def extended(stretch: Stretch, slots: Sequence[SlotUse], *, below: float, most_gap: int) -> Stretch:
    """The stretch after these newer samples, of all slots.

    It ends where the first slot has no more samples. A use of any slot begins it again, and so does a gap of more than
    `most_gap` ticks between two samples of a slot: what was not measured is no proof.
    """
    if not slots or any(len(slot.ticks) == 0 for slot in slots):
        return stretch
    until = min(int(slot.ticks[-1]) for slot in slots)
    since = stretch.since
    for slot in slots:
        known = np.concatenate([[stretch.until], slot.ticks])
        after_gaps = known[1:][(np.diff(known) > most_gap) & (known[:-1] < until)]
        uses = slot.ticks[(slot.percent >= below) & (slot.ticks <= until)]
        since = max([since, *map(int, after_gaps[-1:]), *map(int, uses[-1:])])
    return Stretch(since, max(until, stretch.until))


class Step(StrEnum):
    """What follows for a job."""

    NONE = "none"
    WARN = "warn"
    WITHDRAW = "withdraw"
    ACT = "act"


def step_after(policy: IdleSpec, notice: IdleNotice | None, *, since: datetime, until: datetime) -> Step:
    """What follows from a stretch for a job with this notice on its row.

    `pause` and `stop` are warned of at half of the time, and follow when the warning's `acts_at` has been measured.
    """
    if notice is None:
        warned_after_s = policy.for_s if policy.action == "warn" else policy.for_s / 2
        return Step.WARN if until - since >= timedelta(seconds=warned_after_s) else Step.NONE
    if notice.acted_at is not None:
        return Step.NONE
    was_set_back = until < notice.since  # the clock: nobody knows how long ago the warning was
    if since > notice.since or was_set_back or is_other_policy(policy, notice):
        return Step.WITHDRAW
    return Step.ACT if notice.acts_at is not None and until >= notice.acts_at else Step.NONE


def is_other_policy(policy: IdleSpec, notice: IdleNotice) -> bool:
    """Whether the warning was given for other limits than those that apply now."""
    return (policy.below, policy.for_s, policy.action) != (notice.below, notice.for_s, notice.action)
