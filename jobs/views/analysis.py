"""What an analysis says, as the API answers it. Shares are 0..1, times are seconds, memory is bytes.

A figure that the evidence does not give is null, never a guess.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Frozen):
    """How the values of a series are spread."""

    least: float
    p5: float
    p50: float
    p95: float
    greatest: float
    mean: float


class SlotUse(_Frozen):
    """How busy one slot was while its job trained: from the first step of an attempt to its last, without stalls."""

    metric: str = Field(description="`gpu_percent`, or `cpu_percent` of one core where the slot is a CPU share")
    host: str
    slot: int
    rank: int
    attempt: int
    samples: int
    seconds: float = Field(description="From the first sample to the last")
    spread: Spread
    duty_cycle: float = Field(description="Share of the samples in which it was busy; see docs/telemetry.md")
    spikiness: float = Field(description="0 is even, 1 swings between nothing and everything")
    period_s: float | None = Field(description="Of a swing that repeats")


class StepShares(_Frozen):
    """Where the time of the steps went, without the first step of an attempt; the three shares add up to 1."""

    rank: int = Field(description="-1: the mean over all ranks")
    steps: int
    step_time_s: float = Field(description="The mean")
    data_wait: float
    allreduce: float = Field(description="Waiting for slower ranks included; on a GPU the backward pass too")
    compute: float


class Imbalance(_Frozen):
    """A figure in which the ranks differ more than they should."""

    figure: str = Field(description="`gpu_memory_bytes`, `memory_bytes`, `compute_s` of a step, or `gpu_percent`")
    by_rank: dict[int, float]
    ratio: float = Field(description="The greatest over the least; null would be a rank at 0, and is not listed")
    text: str


class StallCause(StrEnum):
    """What a stalled job waited for, as far as its ranks could tell."""

    DATA = "data"
    RANK = "rank"  # one that did not come to the allreduce
    COMMUNICATION = "communication"  # all of them were in the allreduce
    UNKNOWN = "unknown"  # between two steps, or nobody was left to tell


class Stall(_Frozen):
    """A stretch without a step, far longer than steps take."""

    attempt: int
    began_at: datetime
    length_s: float = Field(description="Without what usually takes its place: a step, a validation, a checkpoint")
    after_step: int
    usual_step_s: float = Field(description="The median step of the attempt")
    ongoing: bool
    cause: StallCause
    rank: int | None = Field(description="The one that the others waited for")
    use_percent: float | None = Field(description="Mean utilization of the slots meanwhile")


class Learning(_Frozen):
    """How the validation went."""

    metric: str
    best_epoch: int
    epochs_run: int
    best: float
    last: float
    train_last: float | None = Field(description="The same metric on the training data, in the last epoch")
    val_loss_rise: float | None = Field(description="Of the last epoch over the least one, as a share of the latter")
    overfits: bool


class LedgerItem(StrEnum):
    """What a leased second of a slot was spent on."""

    LAUNCH = "launch"  # from the lease to the first rank's first line
    SET_UP = "set_up"  # from there to the end of the first step
    USEFUL = "useful"  # computing steps, and validation, of epochs up to the best one
    DATA_WAIT = "data_wait"
    COMMUNICATION = "communication"  # in allreduce
    AFTER_BEST = "after_best"  # all of the epochs after the best one
    STALLED = "stalled"
    LOST = "lost"  # steps that a later attempt ran again
    SAVING = "saving"  # checkpoints
    IDLE = "idle"  # leased, and none of the above: the end of the job, ranks that are already gone


class Ledger(_Frozen):
    """Where the slot-seconds (GPU-seconds, where slots are GPUs) went; the items add up to `leased_s`."""

    leased_s: float = Field(
        description="Over the attempts: slots x seconds from the lease to the attempt's end, or now"
    )
    items: dict[LedgerItem, float]


class FindingKind(StrEnum):
    """What a job is named for."""

    INPUT_BOUND = "input_bound"
    COMMUNICATION_BOUND = "communication_bound"
    COMPUTE_BOUND = "compute_bound"  # as it should be
    STALLED = "stalled"
    OVERFITS = "overfits"
    UNEVEN = "uneven"
    UNDERUSED = "underused"  # the slots have capacity left although nothing waits for data or other ranks
    SPIKY = "spiky"
    THROTTLED = "throttled"  # a GPU slowed down for heat or power
    SET_UP_BOUND = "set_up_bound"  # more time went into launch and set-up than into training


class Finding(_Frozen):
    """One thing that a job is, in a sentence with the figures that it rests on."""

    kind: FindingKind
    text: str
    evidence: dict[str, float | int | str | None]


class Analysis(_Frozen):
    """All that is known of how a job used what it had. Lists are empty where there is no evidence."""

    job_id: str
    complete: bool = Field(description="The job has ended: nothing of this will change")
    findings: list[Finding] = Field(description="The weightiest first")
    steps: list[StepShares] = Field(description="Of all ranks together, then of each")
    utilization: list[SlotUse]
    imbalances: list[Imbalance]
    stalls: list[Stall] = Field(description="The longest first; at most 20")
    learning: Learning | None
    ledger: Ledger
