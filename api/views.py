"""What the API answers with: one pydantic model for each thing, read from a row or a value of `jobs`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from jobs.advice.shape import Quote
from jobs.hosts import SlotState
from jobs.plan import Plan
from jobs.queue import Standing
from jobs.records import ProbeFindings
from jobs.spec import Spec
from jobs.states import EndReason, EventKind, Status
from jobs.tables import Job

Item = TypeVar("Item")
_NOT_COLUMNS = frozenset({"progress", "dataset", "waiting", "study"})  # of a job's view: made of what its columns hold


class _View(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Progress(_View):
    """How far a job has come. What is not known yet is null."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    epoch: int = 0
    epochs: int | None = None
    step: int = 0
    steps: int | None = None
    eta_s: float | None = None


class SummaryView(_View):
    """What a finished job came to."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    best_epoch: int | None = None
    epochs_run: int | None = None
    val_accuracy: float | None = None
    val_loss: float | None = None
    test_accuracy: float | None = None
    test_loss: float | None = None
    train_samples_per_s: float | None = None
    wall_s: float | None = Field(None, description="Of the training alone")
    setup_s: float | None = None
    parameters: int | None = None
    trainable_parameters: int | None = None
    model_bytes: int | None = Field(None, description="Of the weights in memory")
    after_best_share: float | None = Field(None, description="Of the training time, what followed the best epoch; 0..1")
    stopped_early: bool | None = None


class DatasetView(_View):
    """What a job's data turned out to be. Sizes are before `fraction`."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    format: str
    shape: list[int] = Field(description="Of one sample: height, width, channels; or the number of columns")
    classes: list[str] | None = Field(description="The position of a name is its label; null in lists")
    train: int
    validation: int
    test: int
    damaged: int = Field(description="Samples that cannot be read, and are left out")
    damaged_files: list[str] = Field(description="The first few of them")


class WaitingView(_View):
    """Why a job is not running yet."""

    position: int | None = Field(description="In the queue; 1 is next. Null for one that is not in its turn")
    reason: str


class JobView(_View):
    """A training job."""

    id: str
    name: str
    owner: str
    status: Status
    end_reason: EndReason | None
    error: str | None = Field(description="Why it failed, in a sentence")
    spec: dict[str, Any] = Field(description="The spec with every default")
    plan: dict[str, Any] = Field(description="The figures that the run uses; see the schema Plan")
    progress: Progress
    summary: SummaryView | None
    dataset: DatasetView | None = Field(description="Null until the data was opened")
    labels: dict[str, str]
    study: str | None = Field(description="The study that it is part of")
    study_cell: int | None = Field(description="Position in the study's grid, from 0")
    study_repeat: int | None
    probe: ProbeFindings | None = Field(description="Of a batch probe: what it found")
    gpus: int
    priority: int
    attempt: int = Field(description="Number of the newest attempt; 0 before the first")
    restarts: int = Field(description="Those that count against `max_restarts`")
    losses: int = Field(description="Attempts lost with their host or supervisor; they do not count")
    waiting: WaitingView | None = Field(description="Of a queued job; null in answers to POST")
    paused_at: datetime | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    logs_removed_at: datetime | None = Field(description="Its lines were older than the settings keep them")
    series_thinned_at: datetime | None = Field(description="Of its step metrics and samples the outline is left")
    revision: int = Field(description="Grows with every change")

    @classmethod
    def of(cls, job: Job, *, with_classes: bool = True, standing: Standing | None = None) -> Self:
        """The view of a row; the names of the classes are read from the database only now."""
        fields = {name: getattr(job, name) for name in cls.model_fields if name not in _NOT_COLUMNS}
        dataset = None
        if job.dataset is not None:
            dataset = DatasetView.model_validate({**job.dataset, "classes": job.classes if with_classes else None})
        waiting = None if standing is None else WaitingView.model_validate(standing)
        return cls(**fields, progress=_progress_of(job), dataset=dataset, waiting=waiting, study=job.study_id)


def _progress_of(job: Job) -> Progress:
    epochs, steps_per_epoch = job.plan.get("epochs"), job.plan.get("steps_per_epoch")
    steps = epochs * steps_per_epoch if epochs and steps_per_epoch else None
    told = {"per_gpu_batch": None} if job.spec.get("probe") else {"epochs": epochs, "steps": steps}
    progress = Progress.model_validate({**told, **(job.progress or {})})
    return progress if job.ended_at is None else progress.model_copy(update={"eta_s": None})


class Preview(_View):
    """What a submission would do."""

    spec: Spec
    plan: Plan
    quote: Quote | None = Field(None, description="What it is expected to take, from comparable past jobs")
    warnings: list[str] = Field([], description="What speaks against it, a sentence each")


class Listed(_View, Generic[Item]):
    """A page of a list; `next_cursor` asks for the next one and is null at the end."""

    items: Sequence[Item]
    next_cursor: str | None = None


class EventView(_View):
    """One line of a job's history."""

    id: int
    at: datetime
    kind: EventKind
    attempt: int | None
    data: dict[str, Any]


class ShareView(_View):
    """The slots that an attempt has of one host."""

    host: str
    slots: list[int]


class AttemptView(_View):
    """One launch of a job."""

    number: int
    host: str = Field(description="The lead host: its supervisor runs there")
    shares: list[ShareView] = Field(description="In the order of the ranks, the lead host first")
    gpus: int
    resumed_step: int | None = Field(description="The step it went on from; 0 is the start")
    setup: dict[str, float] = Field(description="Seconds of each part of the set-up that is over, of rank 0")
    queued_at: datetime = Field(description="Since when the job had waited for it")
    due_at: datetime | None = Field(description="It passed a job that waits, which from then on may have its slots")
    preempt_requested_at: datetime | None
    preempted_for: str | None = Field(description="Why it was asked to make room")
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    error: str | None


class LogLineView(_View):
    """One line that a rank printed; rank -1 is the launcher."""

    id: int
    at: datetime
    attempt: int
    rank: int
    text: str


class LogView(_View):
    """Lines, oldest first; `next_after` goes on behind the last one."""

    items: Sequence[LogLineView]
    next_after: int


class BandView(_View):
    """What some neighbouring points came to: all that there were, whether they are kept or not."""

    x_from: float = Field(description="Of the first of them")
    x_to: float
    count: int = Field(description="Of those that are numbers")
    min: float
    max: float
    mean: float
    p95: float = Field(description="95 % do not exceed it. Of a series that was thinned: at least that")


class MetricSeriesView(_View):
    """One metric of one rank; rank -1 is the mean over all ranks, one point an epoch."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]
    bands: list[BandView]


class MetricsView(_View):
    """The metrics of a job."""

    series: Sequence[MetricSeriesView]


class SampleSeriesView(_View):
    """What one slot did during one attempt."""

    metric: str
    unit: str
    host: str
    slot: int
    rank: int
    attempt: int
    limit: float | None = Field(description="The most that the slot, or its host, has of it: of memory")
    x: list[float]
    step: list[int | None] = Field(description="The newest step of the rank at the time")
    y: list[float | None]
    bands: list[BandView]


class JobHostSeriesView(_View):
    """What a whole host did while the job was on it."""

    metric: str
    unit: str
    host: str
    limit: float | None
    x: list[float]
    y: list[float | None]
    bands: list[BandView]


class UtilizationView(_View):
    """The utilization of a job's slots and hosts."""

    series: Sequence[SampleSeriesView]
    hosts: Sequence[JobHostSeriesView]


class SlotView(_View):
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


class HostSeriesView(_View):
    """A metric of a host. `x` is seconds since `start`; a gap in `y` is null."""

    metric: str
    unit: str
    x: Sequence[float]
    y: Sequence[float | None]


class HostUtilizationView(_View):
    """What a whole host did."""

    start: datetime
    series: Sequence[HostSeriesView]


class HostView(_View):
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

    model_config = ConfigDict(extra="forbid", strict=True)

    requeue: bool = Field(False, description="Also ask the jobs there to save and go elsewhere")


class ReadinessView(BaseModel):
    """What the service needs, and how it is. The database's own absence is a problem, 503."""

    status: Literal["ok"] = "ok"
    database: Literal["ok"] = "ok"
    schema_: str = Field(alias="schema", description="`ok`, or which newer version the database is at")
    broker: Literal["ok", "away"] = Field(description="Away: jobs run all the same, and start up to a second later")


class FieldError(BaseModel):
    """One wrong field of a request: its dotted path, what is allowed, and what came."""

    field: str
    message: str
    received: str | None = None


class ProblemView(BaseModel):
    """An error as of RFC 9457."""

    type: str = Field(examples=["urn:hora:problem:job-not-found"])
    title: str
    status: int
    detail: str | None = None
    instance: str
    request_id: str | None
    errors: list[FieldError] | None = None
