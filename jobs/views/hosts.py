"""Hosts and their slots."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.model.states import SlotState
from jobs.views.base import View


class SlotView(View):
    """One GPU, or one CPU share, and what holds it."""

    index: int
    kind: str
    name: str
    uuid: str | None
    memory_bytes: int | None
    state: SlotState
    job_id: str | None
    attempt: int | None
    rank: int | None
    reading: dict[str, Any] | None = Field(
        description="What its GPU did a few seconds ago, leased or not; `at` says when"
    )


class HostView(View):
    """A machine with slots."""

    name: str
    alive: bool
    heartbeat_at: datetime
    heartbeat_age_s: float
    registered_at: datetime
    drained_at: datetime | None = Field(description="Since when nothing new is placed on it")
    kept_for: str | None = Field(description="The waiting job that its free slots are kept for")
    address: str | None = Field(description="Where other hosts reach it; null: no job spans it and another")
    info: dict[str, Any]
    slots: Sequence[SlotView]


class Drain(BaseModel):
    """How a host is to be drained."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"requeue": True}]})

    requeue: bool = Field(False, description="Also ask the jobs there to save and go elsewhere")
