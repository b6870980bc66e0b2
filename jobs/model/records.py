"""What a rank writes: one JSON object a line, appended to its own file, in the order things happened.

Written by the trainer, tailed and stored by the supervisor. Pure pydantic, no I/O. Times (`at`) are seconds
since the epoch, durations are seconds. The launch file is the one thing that goes the other way.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from jobs.model.plan import Plan
from jobs.model.spec import Spec
from jobs.model.states import EndReason

# As the database can hold them: a line beyond these is damaged, and is no record.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Epoch = Annotated[int, Field(ge=0, lt=2**31)]
Metrics = dict[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=64)], float]


class _Record(BaseModel):
    # A diverged loss is NaN. Pydantic would write null, which is no float, and the record would be lost.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    at: Annotated[float, Field(ge=0, lt=253_402_300_800)]  # before the year 10000


class RankStarted(_Record):
    """The first line of every rank, written before TensorFlow is imported."""

    kind: Literal["rank_started"] = "rank_started"
    rank: int
    local_rank: int
    host: str
    pid: int


class PhaseEnded(_Record):
    """A part of the set-up is over: import, connect, data, build, restore, first_step."""

    kind: Literal["phase_ended"] = "phase_ended"
    name: str
    duration_s: float


class DataOpened(_Record):
    """Rank 0: what the data turned out to be; `shape` is one sample's: (height, width, channel), or (feature,).

    Written again when an epoch has come upon more damaged samples; the last one counts.
    """

    kind: Literal["data"] = "data"
    format: str
    shape: list[int]
    classes: list[str]  # the position of a name is its label
    train: Count  # samples, before `fraction`
    validation: Count
    test: Count
    damaged: Count  # samples that cannot be read, and are left out
    damaged_files: list[str]  # the first few of them


class Planned(_Record):
    """Rank 0: the plan that all ranks agreed on, and where the run goes on from (epoch 0 = from the start)."""

    kind: Literal["planned"] = "planned"
    plan: Plan
    start_epoch: Epoch = 0
    start_step: Count = 0


class StepEnded(_Record):
    """One optimizer update. `step` counts from 1 over the whole job; `epoch` from 1.

    `metrics` are this rank's own, on its own part of the batch. `samples_per_s` is over all ranks.
    """

    kind: Literal["step"] = "step"
    step: Count
    epoch: Epoch
    step_time_s: float
    data_wait_s: float  # of the step's time, until the batch was there
    allreduce_s: float  # of the step's time, from the last gradient to the averaged ones; waiting for peers included
    samples_per_s: float
    metrics: Metrics


class RankEpochEnded(_Record):
    """What one pass cost this rank: percentiles of its step times, and sums of what its steps waited for.

    Over the steps of this attempt, without its first one, which is set-up; 0.0 where that leaves none.
    """

    kind: Literal["rank_epoch"] = "rank_epoch"
    epoch: Epoch
    step: Count
    step_time_p50_s: float
    step_time_p95_s: float
    data_wait_s: float
    allreduce_s: float


class EpochEnded(_Record):
    """Rank 0: one pass is over; `metrics` are averaged over all ranks (loss, accuracy, val_loss, val_accuracy).

    So are the times, by which early stopping may be told to stop: `epoch_s` there is `wall_s` here.
    """

    kind: Literal["epoch"] = "epoch"
    epoch: Epoch
    step: Count
    wall_s: float  # its steps and its validation
    samples_per_s: float
    learning_rate: float  # of its last update, read from the optimizer
    metrics: Metrics
    data_wait_s: float = 0.0  # sums over its steps, as in RankEpochEnded
    allreduce_s: float = 0.0


class CheckpointSaved(_Record):
    """Rank 0: a complete checkpoint is on disk under its final name."""

    kind: Literal["checkpoint"] = "checkpoint"
    epoch: Epoch
    step: Count
    path: str
    duration_s: float


class Summary(BaseModel):
    """What a job came to. `wall_s` is training alone, without set-up; best epoch by the monitored metric.

    `metrics` are those of the weights that were kept, `test_*` on held-out data among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    best_epoch: int
    epochs_run: int
    val_accuracy: float | None
    val_loss: float | None
    test_accuracy: float | None = None
    test_loss: float | None = None
    train_samples_per_s: float
    wall_s: float
    setup_s: float
    parameters: int
    trainable_parameters: int  # those that training changed: without a frozen base
    model_bytes: int  # of the weights in memory
    after_best_share: float  # of the time of all epochs, what those after the best one took; 0..1
    stopped_early: bool


class Summarized(_Record):
    """Rank 0: the last record before the exit of a run that came to its end."""

    kind: Literal["summary"] = "summary"
    summary: Summary


class ProbePoint(BaseModel):
    """What a batch probe measured with one batch; only `fits` and the batches where it was too large for the memory.

    Times are means over the ranks of each one's median, in the quickest third of the steps.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_gpu_batch: int
    global_batch: int
    fits: bool
    steps: int = 0  # that were timed
    step_time_s: float | None = None  # without the wait for data
    samples_per_s: float | None = None  # over all ranks, at that step time
    data_wait_s: float | None = None  # before a step
    allreduce_s: float | None = None  # of the step time
    memory_bytes: int | None = None  # at its most, of the rank that took most: of the GPU, or resident without one


class ProbeFindings(BaseModel):
    """What a batch probe came to, or has so far. Batches are one GPU's; only `batch_size` is meant as in the spec."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: list[ProbePoint]  # the batches double from one to the next
    # Why no larger batch was tried; null while the probe goes on. `time`: a step took longer than the spec's `seconds`.
    ended_by: Literal["largest", "memory", "data", "time"] | None = None
    knee_batch: int | None = None  # the smallest from which on throughput hardly grows; null where it grew to the end
    largest_batch: int | None = None  # the largest that was tried and fits
    batch_size: int | None = None  # proposed
    learning_rate: float | None = None  # proposed for it
    why: str | None = None  # the figures that the proposal rests on, in sentences


class ProbeStepped(_Record):
    """Rank 0 of a batch probe: it goes on, with this batch. Written when a batch begins, then about once a second."""

    kind: Literal["probe_steps"] = "probe_steps"
    per_gpu_batch: int
    steps: Count  # that were timed with this batch so far


class ProbeMeasured(_Record):
    """Rank 0 of a batch probe: one batch is done. Probes write no steps and no epochs."""

    kind: Literal["probe_point"] = "probe_point"
    point: ProbePoint


class ProbeEnded(_Record):
    """Rank 0: the last record before the exit of a batch probe that came to its end."""

    kind: Literal["probe"] = "probe"
    findings: ProbeFindings


class UnexplainedExit(StrEnum):
    """Why a rank exited before the end, where that does not explain the end of the attempt."""

    STOP_REQUESTED = "stop_requested"  # it saw the stop file and saved a checkpoint
    PEER_LOST = "peer_lost"  # a collective failed because another rank is gone


class RankExited(_Record):
    """The last line of every rank that could still write one."""

    kind: Literal["exit"] = "exit"
    reason: EndReason | UnexplainedExit
    message: str | None = None


Record = Annotated[
    RankStarted
    | PhaseEnded
    | DataOpened
    | Planned
    | StepEnded
    | RankEpochEnded
    | EpochEnded
    | CheckpointSaved
    | Summarized
    | ProbeStepped
    | ProbeMeasured
    | ProbeEnded
    | RankExited,
    Field(discriminator="kind"),
]
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def parse_record(line: str | bytes) -> Record | None:
    """The record on a line, or None for a line that is not one (a rank killed while writing)."""
    try:
        return _RECORD.validate_json(line)
    except ValidationError:
        return None


class Expected(BaseModel):
    """What validation found in a registered dataset. Ranks that find other figures do not train."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str  # NAME@VERSION
    samples: int  # of the training data, before the validation split
    test: int
    classes: int


class Launch(BaseModel):
    """The launch file: all that the ranks of a host are told, as JSON in the folder they get as their one argument.

    Paths are absolute. The ranks leave when `stop_path` exists.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    job_id: str
    attempt: int
    spec: Spec
    expected: Expected | None = None  # of data that is registered
    gpus: int
    device: Literal["gpu", "cpu"]
    threads_per_rank: int
    gpu_uuids: list[str] = []  # of this host, by local rank
    data_roots: list[str]  # folders and URLs below which datasets and weights may be read
    cache_dir: str  # raw files of `cache: disk`, shared by all jobs of this host
    weights_dir: str  # where ImageNet weights are looked for
    job_weights: str | None = None  # the file that `weights: job:ID` means
    models: list[str] = []  # `module:function` of networks that the operator allows
    records_dir: str  # rank N appends to records_dir/rank-N.jsonl
    logs_dir: str  # rank N writes stdout and stderr to logs_dir/rank-N.log
    checkpoints_dir: str  # one folder an attempt, `attempt-N`
    artifacts_dir: str
    stop_path: str
    lease_path: str | None = None  # until when the ranks of this host may run, in seconds of its CLOCK_MONOTONIC


def launch_file_name(host: str = "localhost") -> str:
    """The launch file of the ranks on a host, by the name that horovodrun has for it."""
    return f"{host}.json"


def rank_records_name(rank: int) -> str:
    """File name of a rank's records below `Launch.records_dir`."""
    return f"rank-{rank}.jsonl"


def rank_log_name(rank: int) -> str:
    """File name of a rank's log below `Launch.logs_dir`."""
    return f"rank-{rank}.log"
