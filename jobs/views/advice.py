"""What advice and quotes say, as the API answers them."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rule(StrEnum):
    """The steps of scaling in the order in which they pay; the first ones need no new hardware."""

    PRETRAINED_BASE = "pretrained_base"
    EARLY_STOPPING = "early_stopping"
    BATCH_AND_RATE = "batch_and_rate"
    STREAMING_AND_CACHE = "streaming_and_cache"
    GPUS = "gpus"  # on one host
    HOSTS = "hosts"


class Gain(_Frozen):
    """What a piece of advice is expected to bring. A factor below 1 is less of it; null: no evidence for a figure."""

    time_factor: float | None = Field(description="Training time, as a multiple of what it was")
    gpu_hours_factor: float | None
    accuracy: float | None = Field(description="Points of validation accuracy, 0.01 is one in a hundred")
    text: str


class Advice(_Frozen):
    """One thing to change, and why. `change` is laid over the spec, as in `POST /v1/jobs/{id}/clone`."""

    number: int = Field(description="From 1, in the order in which to try them")
    rule: Rule
    what: str
    why: str = Field(description="With the figures that it rests on")
    evidence: dict[str, float | int | str | None]
    change: dict[str, Any]
    gain: Gain


class Range(_Frozen):
    """An expectation, and between which values past jobs lie (or fall, where they are scaled)."""

    mean: float
    low: float
    high: float


class Quote(_Frozen):
    """What a job is expected to take, from past ones. Null: no job is comparable."""

    basis: Literal["same_spec", "same_batch_and_gpus", "scaled"] = Field(
        description="How close the past jobs are: the same but for names and rates, the same work on as many GPUs with "
        "the same batch, or the same work on other numbers"
    )
    jobs: list[str] = Field(description="The ids of the past jobs that it rests on, the newest first")
    epochs: str | None = Field(description="With how many epochs it reckons, and why; null: with none")
    wall_s: Range | None = Field(description="Of the training alone")
    setup_s: Range | None
    samples_per_s: Range | None
    gpu_hours: Range | None
    speedup: float | None = Field(
        description="In throughput, over the same spec on one GPU; null where that was never measured"
    )
    efficiency: float | None = Field(description="speedup / gpus")
    doubling_gain: float | None = Field(
        description="Throughput over that of the same spec on half as many GPUs; 2 is the ideal"
    )
