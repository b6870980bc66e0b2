"""Records: what a rank writes. Each is a JSON object on one line, appended to the rank's own file as things happen.

The trainer writes them; the supervisor reads and stores them. Pure pydantic, no I/O. Times (`at`) are seconds since
the Unix epoch, durations are seconds. The launch file goes the other way (`jobs.model.launch`).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from jobs.model.alerts import MOST_IN_TEXT, MOST_IN_TITLE, AlertLevel
from jobs.model.plan import Plan
from jobs.model.states import EndReason
from jobs.model.tasks import CLASSIFICATION, Task

# The limits of the database's columns: a line beyond them is damaged, and is not a record.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Epoch = Annotated[int, Field(ge=0, lt=2**31)]
Metrics = dict[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=64)], float]


class _Record(BaseModel):
    # A diverged loss is NaN. Pydantic would write null, which is not a float, and the record would be lost.
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
    """Rank 0: the data as it was found. `shape` is that of a sample: (height, width, channel), (feature,) or (word,).

    Written again when an epoch finds more damaged samples. The last record counts.
    """

    kind: Literal["data"] = "data"
    format: str
    shape: list[int]
    words: Count | None = None  # of the vocabulary, if the samples are texts
    classes: list[str]  # the position of a name is its label; none in a regression
    task: Task = CLASSIFICATION
    targets: int = 0  # numbers that a sample has to learn, in a regression
    train: Count  # samples, before `fraction`
    validation: Count
    test: Count
    damaged: Count  # samples that cannot be read; they are left out
    damaged_files: list[str]  # the first few files with such samples
    warnings: list[str] = []  # what else is odd about it, a sentence each


class Planned(_Record):
    """Rank 0: the plan that all ranks agreed on, and where the run continues (epoch 0: from the start)."""

    kind: Literal["planned"] = "planned"
    plan: Plan
    start_epoch: Epoch = 0
    start_step: Count = 0


class StepEnded(_Record):
    """One optimizer update. `step` counts from 1 over the whole job; `epoch` from 1.

    `metrics` are those of this rank, on its part of the batch. `samples_per_s` is over all ranks.
    """

    kind: Literal["step"] = "step"
    step: Count
    epoch: Epoch
    step_time_s: float
    data_wait_s: float  # part of the step's time: the wait for the batch
    # Part of the step's time: from the last own gradient to the last average, with the wait for peers. Messages that
    # travelled before the last gradient was computed cost no time, and are not in it.
    allreduce_s: float
    samples_per_s: float
    metrics: Metrics


class Reported(_Record):
    """What a script reported with `run.report`. Any rank writes them; `metrics` are the script's own numbers.

    With a `step` the numbers belong to that step of this rank. With an `epoch` alone they belong to the end of that
    epoch: those of rank 0 count for the whole job. With neither, they belong to the run so far.

    The times are measured between reports, and are null in the first one. Those of a step are means over the steps
    since the last report.
    """

    kind: Literal["report"] = "report"
    step: Count | None = None
    epoch: Epoch | None = None
    metrics: Metrics
    step_time_s: float | None = None
    data_wait_s: float | None = None  # part of the step's time: in `run.phase("data")`
    allreduce_s: float | None = None  # part of the step's time: in `run.phase("allreduce")`
    samples_per_s: float | None = None  # over all ranks, with the plan's global batch
    wall_s: float | None = None  # of an epoch


class ProgressMade(_Record):
    """Rank 0 of a script: how much of its work is done, in units of its own."""

    kind: Literal["progress"] = "progress"
    done: Annotated[float, Field(ge=0, lt=2**63)]
    total: Annotated[float, Field(ge=0, lt=2**63)] | None = None


class Alerted(_Record):
    """What a script said with `run.alert`. Any rank writes them."""

    kind: Literal["alert"] = "alert"
    level: AlertLevel
    title: Annotated[str, Field(min_length=1, max_length=MOST_IN_TITLE)]
    text: Annotated[str, Field(max_length=MOST_IN_TEXT)] = ""
    wait_s: Annotated[float, Field(ge=0, lt=1e9)] = 0.0


class RankEpochEnded(_Record):
    """The times of one epoch on this rank: percentiles of its step times, and sums of the waits in its steps.

    They cover the steps of this attempt without its first one, which is set-up. They are 0.0 if no step remains.
    """

    kind: Literal["rank_epoch"] = "rank_epoch"
    epoch: Epoch
    step: Count
    step_time_p50_s: float
    step_time_p95_s: float
    data_wait_s: float
    allreduce_s: float


class EpochEnded(_Record):
    """Rank 0: an epoch is over. `metrics` are averaged over all ranks: those of `jobs.model.tasks`.

    So are the times, because early stopping can monitor them. Its metric `epoch_s` is `wall_s` here.
    """

    kind: Literal["epoch"] = "epoch"
    epoch: Epoch
    step: Count
    wall_s: float  # the time of its steps and its validation
    samples_per_s: float
    learning_rate: float  # of its last update, read from the optimizer
    metrics: Metrics
    data_wait_s: float = 0.0  # sums over its steps, as in RankEpochEnded
    allreduce_s: float = 0.0


class CheckpointSkipped(_Record):
    """Rank 0: a checkpoint was not saved, because there is no space. It is tried again every few seconds."""

    kind: Literal["checkpoint_skipped"] = "checkpoint_skipped"
    epoch: Epoch
    step: Count
    why: str


class CheckpointSaved(_Record):
    """Rank 0: a complete checkpoint is on disk under its final name."""

    kind: Literal["checkpoint"] = "checkpoint"
    epoch: Epoch
    step: Count
    path: str
    duration_s: float
    kept: Count | None = None  # checkpoints that are on disk now
    stored_bytes: Count | None = None  # their size


class MetricSummary(BaseModel):
    """The last and the best value of a metric, over all attempts. Null where a value is no number.

    `best_epoch` is the epoch of the best one; null if it was reported without an epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    last: float | None
    best: float | None
    best_epoch: int | None = None


class Summary(BaseModel):
    """The results of a job that Hora trained in its own loop. `wall_s` is the time without set-up.

    The best epoch is that of the goal's metric. `val_*` are those of the weights that were kept, `test_*` are measured
    on held-out data.
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
    trainable_parameters: int  # parameters that training changed: without a frozen base
    model_bytes: int  # size of the weights in memory
    after_best_share: float  # share of the time of all epochs that came after the best one; 0..1
    stopped_early: bool
    metrics: dict[str, MetricSummary] = {}  # of every metric; the supervisor adds them


class ScriptSummary(BaseModel):
    """The results of a script, with the names of `Summary`. Null is what it did not report.

    The rank writes the figures of its attempt. The supervisor adds `metrics`, and from them the best epoch, `val_*` and
    `test_*`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    best_epoch: int | None = None
    epochs_run: int | None = None
    val_accuracy: float | None = None
    val_loss: float | None = None
    test_accuracy: float | None = None
    test_loss: float | None = None
    train_samples_per_s: float | None = None
    wall_s: float
    setup_s: float
    stopped_early: bool = False
    metrics: dict[str, MetricSummary] = {}


class Summarized(_Record):
    """Rank 0: the last record before the exit of a run that came to its end."""

    kind: Literal["summary"] = "summary"
    summary: Summary | ScriptSummary


class ProbePoint(BaseModel):
    """The measurements with one batch. If it is too large for the memory, only `fits` and the batches are set.

    Each time is a mean over the ranks of each rank's median. Only the quickest third of the steps counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_gpu_batch: int
    global_batch: int
    fits: bool
    steps: int = 0  # number of timed steps
    step_time_s: float | None = None  # without the wait for data
    samples_per_s: float | None = None  # over all ranks, at that step time
    data_wait_s: float | None = None  # before a step
    allreduce_s: float | None = None  # part of the step time; null: one process averages in its graph
    memory_bytes: int | None = (
        None  # peak memory of the rank that used most: GPU memory, or resident memory without a GPU
    )


class ProbeFindings(BaseModel):
    """The results of a batch probe so far. Batches are per GPU, except `batch_size`, which is as in the spec."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: list[ProbePoint]  # each batch is twice the one before
    # Why no larger batch was tried; null while the probe goes on. `time`: a step took longer than the spec's `seconds`.
    ended_by: Literal["largest", "memory", "data", "time"] | None = None
    knee_batch: int | None = None  # the smallest batch after which throughput hardly grows; null: it grew to the end
    largest_batch: int | None = None  # the largest batch that was tried and fits
    batch_size: int | None = None  # proposed
    learning_rate: float | None = None  # proposed for that batch
    why: str | None = None  # the reason for the proposal: sentences with figures


class ProbeStepped(_Record):
    """Rank 0 of a batch probe: it is measuring this batch. Written when a batch begins, then about once a second."""

    kind: Literal["probe_steps"] = "probe_steps"
    per_gpu_batch: int
    steps: Count  # timed steps with this batch so far


class ProbeMeasured(_Record):
    """Rank 0 of a batch probe: one batch is measured. Probes write no steps and no epochs."""

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
    """The last line of a rank. It is missing if the rank could not write any more."""

    kind: Literal["exit"] = "exit"
    reason: EndReason | UnexplainedExit
    message: str | None = None


Record = Annotated[
    RankStarted
    | PhaseEnded
    | DataOpened
    | Planned
    | StepEnded
    | Reported
    | ProgressMade
    | Alerted
    | RankEpochEnded
    | EpochEnded
    | CheckpointSaved
    | CheckpointSkipped
    | Summarized
    | ProbeStepped
    | ProbeMeasured
    | ProbeEnded
    | RankExited,
    Field(discriminator="kind"),
]
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def parse_record(line: str | bytes) -> Record | None:
    """The record on a line. None if the line is not a record, such as that of a rank killed while writing."""
    try:
        return _RECORD.validate_json(line)
    except ValidationError:
        return None


NOTE_BYTES = 1024  # of a note's file, whatever it says


class RankNote(BaseModel):
    """What a rank says while it cannot append to its records: a file beside them, overwritten in place.

    `records` counts those that it made, so that a reader sees that it goes on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    records: Count = 0
    held_back_bytes: Count = 0  # of records that wait in memory
    dropped: Count = 0  # records for which there was no more memory
    waited_s: Count = 0  # it makes no steps: for so long it has waited for space
    why: str | None = None  # null: it can write again
    exit: RankExited | None = None  # if this did not fit into its records

    @classmethod
    def parse(cls, text: str | bytes) -> "RankNote | None":
        """The note in a file; None if there is none yet, or if it is half written."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None


def rank_records_name(rank: int) -> str:
    """File name of a rank's records below `Launch.records_dir`."""
    return f"rank-{rank}.jsonl"


def rank_log_name(rank: int) -> str:
    """File name of a rank's log below `Launch.logs_dir`."""
    return f"rank-{rank}.log"


def rank_note_name(rank: int) -> str:
    """File name of a rank's `RankNote`, beside its records."""
    return f"rank-{rank}.note"
