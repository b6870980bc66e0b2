"""What is said of a job whose slots nobody uses."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from jobs.views.base import View


class IdleNotice(View):
    """A warning that nobody uses the slots of a job, or what was done because of that."""

    attempt: int = Field(description="The attempt that holds the slots")
    below: float = Field(description="The limit, in percent, below which a slot is idle")
    for_s: float = Field(description="The time after which something is done")
    action: Literal["warn", "pause", "stop"]
    since: datetime = Field(description="Since when all its slots are idle")
    acts_at: datetime | None = Field(description="When the action follows if nothing changes; null: it only warns")
    acted_at: datetime | None = Field(None, description="When the job was told to pause or to end; null: not yet")
    why: str = Field(description="What was measured, as part of a sentence")
