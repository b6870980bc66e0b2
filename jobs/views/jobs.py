"""Jobs, and what they have been through."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from jobs.model.plan import Plan
from jobs.model.preemption import PreemptionKind
from jobs.model.records import ProbeFindings
from jobs.model.spec import Spec
from jobs.model.states import EndReason, EventKind, Status
from jobs.views.advice import Quote
from jobs.views.base import View


class Progress(View):
    """How far a job has come. What is not known yet is null."""

    model_config = ConfigDict(from_attributes=True, extra="allow")

    epoch: int = 0
    epochs: int | None = None
    step: int = 0
    steps: int | None = None
    eta_s: float | None = None


class SummaryView(View):
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


class DatasetView(View):
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


class DatasetRefView(View):
    """The version of a registered dataset that a job trains on."""

    name: str
    version: int
    fingerprint: str | None = Field(description="SHA-256 over the names and bytes of its files")


class WaitingView(View):
    """Why a job is not running yet."""

    position: int | None = Field(description="In the queue; 1 is next. Null for one that is not in its turn")
    reason: str


class JobView(View):
    """A training job."""

    id: str
    name: str
    owner: str
    project: str
    status: Status
    end_reason: EndReason | None
    error: str | None = Field(description="Why it failed, in a sentence")
    spec: dict[str, Any] = Field(description="The spec with every default")
    plan: dict[str, Any] = Field(description="The figures that the run uses; see the schema Plan")
    progress: Progress
    summary: SummaryView | None
    dataset: DatasetView | None = Field(description="Null until the data was opened")
    dataset_version: DatasetRefView | None = Field(None, description="Of a registered dataset: what its spec names")
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
    artifacts_removed_at: datetime | None = Field(None, description="What it left is not kept any longer")
    revision: int = Field(description="Grows with every change")


class Preview(View):
    """What a submission would do."""

    spec: Spec
    plan: Plan
    quote: Quote | None = Field(None, description="What it is expected to take, from comparable past jobs")
    warnings: list[str] = Field([], description="What speaks against it, a sentence each")


class EventView(View):
    """One line of a job's history."""

    id: int
    at: datetime
    kind: EventKind
    attempt: int | None
    data: dict[str, Any]


class ShareView(View):
    """The slots that an attempt has of one host."""

    host: str
    slots: list[int]


class PreemptionView(View):
    """Why an attempt was asked to release its slots: a job needs them, or its host stops."""

    kind: PreemptionKind
    job: str | None = Field(None, description="The job that needs the slots, for the kind `job`")
    host: str | None = Field(None, description="The host that is drained or shuts down, for the other kinds")


class AttemptView(View):
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
    preempted_for: str | None = Field(description="`preemption` in one line: `job ID` or `host NAME is drained`")
    preemption: PreemptionView | None = Field(None, description="Why it was asked to save and release its slots")
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    error: str | None
