"""The analysis of a job, as the API answers it. Shares are 0..1, times are seconds, memory is bytes.

A figure without evidence is null, never a guess.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Frozen):
    """The distribution of the values of a series."""

    least: float
    p5: float
    p50: float
    p95: float
    greatest: float
    mean: float


class SlotUse(_Frozen):
    """How busy one slot was during training: from an attempt's first step to its last one, without stalls."""

    metric: str = Field(description="`gpu_percent` of a GPU, `cpu_percent` (of one core) of a CPU share")
    host: str
    slot: int
    rank: int
    attempt: int
    samples: int
    seconds: float = Field(description="From the first sample to the last")
    spread: Spread
    duty_cycle: float = Field(description="Share of the samples in which the slot was busy; see docs/telemetry.md")
    spikiness: float = Field(description="0: the load is even. 1: it swings between idle and full load")
    period_s: float | None = Field(description="The period of a repeating swing; null: there is none")


class StepShares(_Frozen):
    """What the steps spent their time on. The first step of an attempt does not count. The shares add up to 1."""

    rank: int = Field(description="-1: the mean over all ranks")
    steps: int
    step_time_s: float = Field(description="The mean time of a step")
    data_wait: float
    allreduce: float | None = Field(
        description="Includes waiting for slower ranks; on a GPU also the backward pass. Null with the strategy"
        " `mirrored`, whose averages nobody can tell from computing: they are in `compute`"
    )
    compute: float


class Imbalance(_Frozen):
    """A figure that differs between the ranks more than it should."""

    figure: str = Field(description="`gpu_memory_bytes`, `memory_bytes`, `compute_s` of a step, or `gpu_percent`")
    by_rank: dict[int, float]
    ratio: float = Field(description="The greatest value / the least value")
    text: str


class StallCause(StrEnum):
    """What a stalled job waited for, as far as its ranks reported it."""

    DATA = "data"
    RANK = "rank"  # one rank did not reach the allreduce
    COMMUNICATION = "communication"  # all ranks were in the allreduce
    UNKNOWN = "unknown"  # it stalled between two steps, or no rank could report


class Stall(_Frozen):
    """A stretch without a step, far longer than a step takes."""

    attempt: int
    began_at: datetime
    length_s: float = Field(description="Length, less the usual time of a step, validation or checkpoint")
    after_step: int
    usual_step_s: float = Field(
        description="The median step time of the attempt; of a script the median time between two reports"
    )
    ongoing: bool
    cause: StallCause
    rank: int | None = Field(description="The rank that the others waited for")
    use_percent: float | None = Field(description="Mean utilization of the slots during the stall")


class Learning(_Frozen):
    """How the goal's metric developed, or the one that early stopping monitors."""

    metric: str
    best_epoch: int
    epochs_run: int
    best: float
    last: float
    train_last: float | None = Field(description="The same metric on the training data, in the last epoch")
    val_loss_rise: float | None = Field(description="(val_loss of the last epoch - least val_loss) / least val_loss")
    overfits: bool
    overfits_by: str | None = Field(
        None, description="The metric that got worse although its counterpart on the training data got better"
    )
    worsening: float | None = Field(None, description="How far that metric is from its best value, as a share of it")


class LedgerItem(StrEnum):
    """What a leased second of a slot was spent on."""

    LAUNCH = "launch"  # from the lease to the first rank's first line
    SET_UP = "set_up"  # from the first rank's first line to the end of the first step
    USEFUL = "useful"  # computing and validating, in epochs up to the best one
    DATA_WAIT = "data_wait"
    COMMUNICATION = "communication"  # in allreduce
    AFTER_BEST = "after_best"  # everything in epochs after the best one
    STALLED = "stalled"
    LOST = "lost"  # steps that a later attempt ran again
    SAVING = "saving"  # checkpoints
    IDLE = "idle"  # none of the above: the end of the job, ranks that have already exited


class Ledger(_Frozen):
    """What the leased slot-seconds (GPU-seconds on GPUs) were spent on. The items add up to `leased_s`."""

    leased_s: float = Field(
        description="Slots x seconds from the lease to the attempt's end (or now), summed over the attempts"
    )
    items: dict[LedgerItem, float]
    waited_s: float = Field(0.0, description="Seconds in which the job waited for its attempts. They are not leased")
    waited_in_slurm_s: float = Field(0.0, description="Of these: after it was handed to a Slurm pool")


class FindingKind(StrEnum):
    """The properties that an analysis can find in a job."""

    INPUT_BOUND = "input_bound"
    COMMUNICATION_BOUND = "communication_bound"
    COMPUTE_BOUND = "compute_bound"  # as it should be, unless a larger batch is faster
    STALLED = "stalled"
    OVERFITS = "overfits"
    NOT_LEARNING = "not_learning"  # the training loss is that of a guess, or worse
    UNEVEN = "uneven"
    UNDERUSED = "underused"  # the slots are not fully used although nothing waits for data or for other ranks
    SPIKY = "spiky"
    THROTTLED = "throttled"  # a GPU slowed down for heat or power
    SET_UP_BOUND = "set_up_bound"  # more time went into launch and set-up than into training


class Finding(_Frozen):
    """One property of the job, as a sentence with the figures behind it."""

    kind: FindingKind
    text: str
    evidence: dict[str, float | int | str | None]


class Analysis(_Frozen):
    """How a job used its slots and its data. A list without evidence is empty."""

    job_id: str
    complete: bool = Field(description="Whether the job has ended: then the analysis does not change any more")
    findings: list[Finding] = Field(description="The most important first")
    steps: list[StepShares] = Field(description="First the mean over all ranks, then each rank")
    utilization: list[SlotUse]
    imbalances: list[Imbalance]
    stalls: list[Stall] = Field(description="The longest first; at most 20")
    learning: Learning | None
    ledger: Ledger
