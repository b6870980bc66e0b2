"""The queue: what waits, in its sequence, and whose turn it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from jobs.views.base import Listed, View


class QueuedJobView(View):
    """A job in the queue."""

    id: str
    name: str
    owner: str
    project: str
    study: str | None
    gpus: int
    priority: int
    position: int = Field(description="Its place in the whole queue, from 1")
    turn: int = Field(
        description="Jobs of one priority come by this number, and with equal numbers by `created_at` and `id`. "
        "It is not the same from one answer to the next"
    )
    level: int = Field(description="By the slots and the time that the job has had, from 0: `scheduling.md`")
    created_at: datetime
    queued_at: datetime = Field(description="When it last began to wait")
    reason: str = Field(description="Why it waits")
    starts_in_s: float | None = Field(
        description="Seconds until it is expected to start, rounded to two digits; null: not known"
    )


class AccountView(View):
    """A user in a project: what they used of the slots lately, and what they are entitled to."""

    project: str
    user: str
    used_part: float = Field(description="Of what all these accounts used lately, 0..1")
    entitled_part: float = Field(description="Of all slots, 0..1")
    used_slot_s: float = Field(description="Slot-seconds; older ones count less")
    is_over: bool = Field(description="Whether its jobs come after those of the others")
    queued: int = Field(description="Jobs that have a place in the queue")
    running_slots: int = Field(description="Slots that its jobs hold")


class AccuracyView(View):
    """How good the expected starts of the last week were. An error is how many times too long or too short one was."""

    jobs: int = Field(description="How many starts were compared")
    median_error: float = Field(description="Half of the errors were at most this; 1: exact")
    within_2: float = Field(description="The part of the jobs whose error was 2 at most, 0..1")


class QueueView(Listed[QueuedJobView]):
    """A page of the queue."""

    policy: Literal["fair", "fifo"] = Field(description="`fair`: users take turns; `fifo`: by age")
    total: int = Field(description="How many jobs have a place, with those of other pages and without the filters")
    held_back: int = Field(
        description="How many queued jobs have no place: they are paused, wait for other jobs, or their owner may not "
        "submit them any more"
    )
    accounts: Sequence[AccountView] = Field(
        description="Those with jobs in the queue or on slots, in the sequence of their turns: the first 100. Empty "
        "for `fifo`"
    )
    more_accounts: int = Field(description="How many accounts there are besides these")
    forecast: AccuracyView | None = Field(description="Null: no expected start can be compared yet")
