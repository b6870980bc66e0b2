"""Jobs, their history and their attempts."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.model.alerts import AlertLevel
from jobs.model.plan import Plan
from jobs.model.preemption import PreemptionKind
from jobs.model.records import ProbeFindings
from jobs.model.spec import Spec
from jobs.model.states import EndReason, EventKind, Status
from jobs.model.tasks import CLASSIFICATION, Task
from jobs.views.advice import Quote
from jobs.views.base import View
from jobs.views.idle import IdleNotice


class Progress(View):
    """The progress of a job. A value that is not known yet is null."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    epoch: int = 0
    epochs: int | None = None
    step: int = 0
    steps: int | None = None
    eta_s: float | None = None
    metrics_epoch: int | None = Field(None, description="The epoch that ended with the values in `metrics`")
    done: float | None = Field(None, description="How much of its work a script has done, in units of its own")
    total: float | None = Field(None, description="How much there is, in the same units")


class MetricSummaryView(View):
    """Values of a metric over all attempts. The best one is lower or higher by the spec's goal."""

    last: float | None = Field(description="Null: the value is no number")
    best: float | None
    best_epoch: int | None = Field(None, description="Null: the metric is reported without epochs")


class MetricView(MetricSummaryView):
    """The same, with the lowest, highest and mean value."""

    low: float | None = Field(None, description="The lowest value. Null: a version before stored the metric")
    high: float | None = Field(None, description="The highest value")
    mean: float | None = Field(
        None, description="Of one value an epoch, over all ranks; without epochs, of the steps of rank 0"
    )


class SummaryView(View):
    """The results of a job that succeeded."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    best_epoch: int | None = None
    epochs_run: int | None = None
    val_accuracy: float | None = None
    val_loss: float | None = None
    test_accuracy: float | None = None
    test_loss: float | None = None
    train_samples_per_s: float | None = None
    wall_s: float | None = Field(None, description="Time of the training, without set-up")
    setup_s: float | None = None
    parameters: int | None = None
    trainable_parameters: int | None = None
    model_bytes: int | None = Field(None, description="Size of the weights in memory")
    after_best_share: float | None = Field(None, description="Share of the training time after the best epoch, 0..1")
    stopped_early: bool | None = None
    metrics: dict[str, MetricSummaryView] = Field({}, description="The last and the best value of every metric")


class DatasetView(View):
    """The data of a job, as its ranks found it. Sample counts are those before `fraction`."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    format: str
    shape: list[int] = Field(
        description="Shape of one sample: height, width, channels; or the number of columns, or of words of a text"
    )
    words: int | None = Field(None, description="Size of the vocabulary of texts; null: the samples are no texts")
    task: Task = Field(CLASSIFICATION, description="What its labels are for")
    classes: list[str] | None = Field(description="The position of a name is its label. Null in lists")
    targets: int = Field(0, description="Numbers that a sample has to learn, in a regression")
    train: int
    validation: int
    test: int
    damaged: int = Field(description="Samples that cannot be read. They are left out")
    damaged_files: list[str] = Field(description="The first few files with such samples")
    warnings: list[str] = Field([], description="What else is odd about the data, one sentence each")


class DatasetRefView(View):
    """The version of a registered dataset that a job trains on."""

    name: str
    version: int
    fingerprint: str | None = Field(description="SHA-256 over the names and contents of the files")


class WaitingView(View):
    """Why a queued job is not running yet."""

    position: int | None = Field(description="Position in the queue; 1 is next. Null: the job cannot be placed yet")
    reason: str
    starts_in_s: float | None = Field(None, description="In how many seconds it is expected to start; null: unknown")


class CopiesBehind(View):
    """What of a job waits to be copied to the store, for more than a minute."""

    since: datetime = Field(description="When the oldest of it could have been copied")
    host: str = Field(description="The host that has it")
    step: int | None = Field(description="The step of the checkpoint that waits; null: only artifacts wait")
    bytes: int
    why: str | None = Field(description="What the store last answered; null: it is slow")


class JobUsage(View):
    """What a job used until now."""

    hosts: list[str] = Field(description="The hosts of its newest attempt: the lead host first")
    devices: list[str] = Field(
        description="The models of the GPUs of its newest attempt, each once; `cpu` without GPUs"
    )
    gpu_hours: float = Field(description="The time of all attempts, times their slots")
    cost: float | None = Field(
        description="What these GPU-hours cost by the service's present prices. Null: a slot has no price"
    )


class AlertView(View):
    """An alert of a job: of its script, or of a rule in its spec."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    at: datetime
    level: AlertLevel
    title: str
    text: str = ""
    rank: int | None = Field(None, description="The rank of the script that sent it, or whose line it is")
    rule: int | None = Field(None, description="Position of its rule in the spec, from 0. Null: a script sent it")
    epoch: int | None = Field(None, description="Of the value that a rule is about")
    step: int | None = Field(None, description="Of the value that a rule is about")


class ContinuedFrom(View):
    """The checkpoint of another job from which a job continues."""

    job: str = Field(description="The id of that job, which may have been deleted since")
    epoch: int = Field(description="The newest epoch that it had trained, at least in part")


class JobView(View):
    """A training job."""

    id: str
    name: str
    owner: str
    project: str
    status: Status
    end_reason: EndReason | None
    error: str | None = Field(description="Why the job failed, as a sentence")
    cause: str | None = Field(None, description="What its end reason means; null while it has not ended")
    remedy: str | None = Field(None, description="What a person can do about its end; null: nothing to do")
    spec: dict[str, Any] = Field(description="The spec, with all defaults filled in")
    plan: dict[str, Any] = Field(description="The resolved spec; see the schema Plan")
    progress: Progress
    summary: SummaryView | None
    metrics: dict[str, MetricView] = Field({}, description="The last and the best value of every metric so far")
    dataset: DatasetView | None = Field(description="The data of the job; null until its ranks opened it")
    dataset_version: DatasetRefView | None = Field(None, description="Null: the spec names no registered dataset")
    labels: dict[str, str]
    notes: str | None = Field(None, description="What people write about the job, in Markdown. Null in lists")
    notes_line: str | None = Field(None, description="The beginning of the notes, in one line. In lists too")
    notes_at: datetime | None = Field(None, description="When the notes were last changed; null: there are none")
    starred: bool = Field(False, description="Whether the job has a star, which everybody sees")
    archived: bool = Field(False, description="Whether the job is archived: the page and `hora ls` leave it out")
    study: str | None = Field(description="The id of the study that the job belongs to")
    study_cell: int | None = Field(description="Position in the study's grid, from 0")
    study_repeat: int | None
    study_values: dict[str, Any] | None = Field(
        None, description="The values of its cell by field, such as `gpus`. Null: it belongs to no study"
    )
    continued_from: ContinuedFrom | None = Field(
        None, description="The job that it continues, by `continue_from`. Null: it began anew"
    )
    code: str | None = Field(None, description="The digest of its code; null: Hora's own loop trains")
    run_id: str | None = Field(None, description="Of the run that was imported; null: the job was submitted")
    probe: ProbeFindings | None = Field(description="The results of a batch probe; null: the job is not a probe")
    gpus: int
    priority: int
    attempt: int = Field(description="Number of the newest attempt; 0: there is none yet")
    restarts: int = Field(description="Restarts that count against `max_restarts`")
    losses: int = Field(description="Attempts lost with their host or supervisor, not part of `restarts`")
    waiting: WaitingView | None = Field(description="Why a queued job waits; null in answers to POST")
    paused_at: datetime | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    logs_removed_at: datetime | None = Field(description="When its log lines were removed")
    series_thinned_at: datetime | None = Field(description="When its step metrics and samples were thinned")
    artifacts_removed_at: datetime | None = Field(None, description="When its artifacts were removed")
    checkpoint_bytes: int | None = Field(None, description="What its checkpoints take; null: nothing was measured")
    artifact_bytes: int | None = Field(None, description="What its artifacts take; null: nothing was measured")
    usage: JobUsage | None = Field(None, description="Null in answers to POST and PATCH")
    copies_behind: CopiesBehind | None = Field(
        None, description="What waits to be copied to the store for too long; null: nothing"
    )
    idle: IdleNotice | None = Field(
        None, description="A warning that nobody uses its slots, or why it was paused; null: neither"
    )
    alerts: int = Field(0, description="How many alerts it has; its events have them all")
    last_alert: AlertView | None = Field(None, description="The newest alert; null: there is none")
    revision: int = Field(description="A number that grows with every change of the job")


class JobCount(View):
    """How many jobs a list has."""

    jobs: int = Field(description="How many; 100,000 if there are more")
    more: bool = Field(description="Whether there are more")


class NewImport(BaseModel):
    """A run that was uploaded: what `hora import` sends."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    upload: Annotated[
        str,
        Field(
            pattern="^[0-9a-z]{1,32}$",
            description="The id of a complete upload with the purpose `run`",
            json_schema_extra={"format": "upload-id"},
        ),
    ]


class Preview(View):
    """The job that a submission would create."""

    spec: Spec
    plan: Plan
    quote: Quote | None = Field(None, description="The expected time and cost, from comparable past jobs")
    warnings: list[str] = Field([], description="Possible problems, one sentence each")


class EventView(View):
    """One line of a job's history."""

    id: int
    at: datetime
    kind: EventKind
    attempt: int | None
    data: dict[str, Any]


class ShareView(View):
    """The slots of an attempt on one host."""

    host: str
    slots: list[int]
    devices: list[str] = Field(
        [], description="The device of each slot: the model of a GPU, or `cpu`. Attempts of earlier versions have none"
    )
    software: dict[str, str] = Field(
        {}, description="The versions of Python, the system and packages of Hora when the attempt was launched there"
    )


class PreemptionView(View):
    """Why an attempt was asked to release its slots: another job needs them, or its host stops."""

    kind: PreemptionKind
    job: str | None = Field(None, description="The job that needs the slots, for the kind `job`")
    host: str | None = Field(None, description="The host that is drained or is shutting down, for the other kinds")


class AttemptView(View):
    """One launch of a job."""

    number: int
    host: str = Field(description="The lead host. The supervisor runs there")
    shares: list[ShareView] = Field(description="The slots on each host, sorted by rank: the lead host first")
    gpus: int
    resumed_step: int | None = Field(description="The step from which the attempt continued; 0: the start")
    setup: dict[str, float] = Field(description="Seconds of each finished phase of the set-up, on rank 0")
    queued_at: datetime = Field(description="When the job began to wait for this attempt")
    handed_at: datetime | None = Field(
        None, description="When the job was handed to the Slurm pool that runs it; null: a host runs it"
    )
    due_at: datetime | None = Field(
        description="If the attempt was placed before a waiting job: when that job may take its slots"
    )
    preempt_requested_at: datetime | None
    preempted_for: str | None = Field(description="`preemption` as one line: `job ID` or `host NAME is drained`")
    preemption: PreemptionView | None = Field(None, description="Why it was asked to save and release its slots")
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    error: str | None
    price_per_hour: float | None = Field(
        None,
        description="What an hour of all its slots costs by the service's present prices. Null: one has no price",
    )
