"""Advice and quotes, as the API answers them."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rule(StrEnum):
    """The steps of scaling, the most worthwhile first. The first ones need no new hardware."""

    PRETRAINED_BASE = "pretrained_base"
    EARLY_STOPPING = "early_stopping"
    BATCH_AND_RATE = "batch_and_rate"
    STREAMING_AND_CACHE = "streaming_and_cache"
    GPUS = "gpus"  # on one host
    HOSTS = "hosts"


class Gain(_Frozen):
    """What a change is expected to gain. A factor below 1 means less than before. Null: too little is known."""

    time_factor: float | None = Field(description="New training time / old training time")
    gpu_hours_factor: float | None
    accuracy: float | None = Field(description="Change of the validation accuracy; 0.01 is one percentage point")
    text: str


class Advice(_Frozen):
    """One change to try, and the reason. `change` is a body for `POST /v1/jobs/{id}/clone`."""

    number: int = Field(description="Position in the list, from 1. Try them in this sequence")
    rule: Rule
    what: str
    why: str = Field(description="The reason, with the figures behind it")
    evidence: dict[str, float | int | str | None]
    change: dict[str, Any]
    gain: Gain


class Range(_Frozen):
    """An expected value, with the lowest and highest value of past jobs. Scaled jobs count with their scaled values."""

    mean: float
    low: float
    high: float


class Quote(_Frozen):
    """The expected time and cost of a job, from comparable past jobs. Null: no past job is comparable."""

    basis: Literal["same_spec", "same_batch_and_gpus", "scaled"] = Field(
        description="How similar the past jobs are. `same_spec`: they differ only in names and rates. "
        "`same_batch_and_gpus`: the same work with the same batch and GPU count. `scaled`: the same work with "
        "another batch or GPU count"
    )
    jobs: list[str] = Field(description="The ids of the past jobs behind the quote, newest first")
    epochs: str | None = Field(description="The expected number of epochs, and why; null: unknown")
    wall_s: Range | None = Field(description="Time of the training, without set-up")
    setup_s: Range | None
    samples_per_s: Range | None
    gpu_hours: Range | None
    speedup: float | None = Field(
        description="Throughput / throughput of the same spec on one GPU; null: that was never measured"
    )
    efficiency: float | None = Field(description="speedup / gpus")
    doubling_gain: float | None = Field(
        description="Throughput / throughput of the same spec on half as many GPUs; 2 is the ideal"
    )
