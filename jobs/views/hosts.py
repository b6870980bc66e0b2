"""Hosts and their slots."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.model.states import SlotState
from jobs.views.base import View


class SlotView(View):
    """One GPU or one CPU share, and the job that holds it."""

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
        description="The last reading of its GPU, a few seconds old; `at` is its time. Free slots have readings too"
    )
    unhealthy: str | None = Field(None, description="Why no job gets its GPU; null: it is healthy")
    in_use_by_others: bool = Field(False, description="Whether processes of no job compute on its GPU")


class FolderView(View):
    """The space of the file system of some folders of a host, and the least that must be free."""

    folders: Sequence[str] = Field(description="`home` is HORA_HOME; the others are named in docs/operations.md")
    free_bytes: int
    least_bytes: int
    free_files: int | None = Field(
        description="Files that can still be made; null: the file system does not count them"
    )
    least_files: int | None
    read_only: bool


class PoolNodeView(View):
    """A node of a Slurm pool, as Slurm knows it."""

    name: str
    state: str = Field(description="Slurm's word: idle, mixed, allocated, down and others; * after it: no answer")
    cpus: int
    memory_bytes: int
    gpus: dict[str, int] = Field(description="How many, by type. The type is empty where Slurm knows none")
    features: list[str]
    failing: bool = Field(False, description="Attempts of several jobs failed there: it is avoided if others are up")


class HostView(View):
    """A machine with slots, or a pool: a partition of Slurm."""

    name: str
    alive: bool
    heartbeat_at: datetime
    heartbeat_age_s: float
    registered_at: datetime
    drained_at: datetime | None = Field(description="Since when the host gets no new jobs; null: it is not drained")
    kept_for: str | None = Field(description="The waiting job for which its free slots are kept")
    no_space: str | None = Field(description="Why the host gets no new jobs until there is space; null: it has space")
    no_store: str | None = Field(
        None, description="Why nothing is copied from the host to the store; null: it is copied, or there is no store"
    )
    folders: Sequence[FolderView] = Field(description="The space in the folders that Hora writes there")
    address: str | None = Field(description="Address for other hosts; null: jobs here use no other host")
    info: dict[str, Any]
    slots: Sequence[SlotView]
    nodes: Sequence[PoolNodeView] | None = Field(
        None, description="The nodes of a pool, whose slots are those that its attempts hold; null: it is a host"
    )
    problem: str | None = Field(None, description="Why a pool takes no jobs now; null: it does, or it is a host")


class Drain(BaseModel):
    """Options of a drain."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"requeue": True}]})

    requeue: bool = Field(False, description="Also ask the host's jobs to save and continue on other hosts")
