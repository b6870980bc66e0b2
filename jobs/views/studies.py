"""Studies and their reports: requests and answers of the API."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from jobs.model.plan import Plan
from jobs.model.printable import lines_text
from jobs.model.spec import Name, ProjectName
from jobs.model.states import EndReason, Status
from jobs.views.searches import SearchReport, SearchSpec, TrialReport

MAX_JOBS = 1000
DeviceKind = Literal["cpu", "gpu"]


Note = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000), AfterValidator(lines_text)
]


class StudySpec(BaseModel):
    """A grid or a search to submit. The base and every cell are checked as specs, and the ends of a search's space."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: Name = Field(
        "study",
        description="Each job is named after the study and its cell. The `name` of the base has no effect.",
    )
    base: dict[str, JsonValue] = Field(description="A [spec](spec.md). Fields that the grid varies may be left out.")
    grid: dict[str, list[JsonValue]] = Field(
        {},
        description="A list of values for each field. Fields of objects are written as `dataset.fraction`. Values may"
        " be objects: `model: [mlp, {name: lenet5, dropout: 0.5}]`.",
    )
    search: SearchSpec | None = Field(
        None,
        description="In place of a grid: how to choose values while the study runs. See [search](studies.md#search).",
    )
    repeats: int = Field(
        1, ge=1, le=100, description="Jobs of each cell. The second has the seed of the first + 1, and so on."
    )
    max_jobs: int = Field(100, ge=1, le=MAX_JOBS, description="A study with more jobs is refused. At most 1,000.")
    target: float | None = Field(
        None,
        description="A value of the [goal](studies.md#the-goal), such as a `val_accuracy` of 0.9. The report says the"
        " time and GPU-hours until it was reached. With `null` the report [chooses one](studies.md#the-report).",
    )
    note: Note | None = Field(None, description="The first of the study's notes.")


class NoteText(BaseModel):
    """A note to add to a study."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"text": "Two GPUs are enough for batches of 128."}]},
    )

    text: Note


class StudyChanges(BaseModel):
    """Changes to a study that has ended."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [{"project": "vision"}]}
    )

    project: ProjectName = Field(description="The [project](projects.md) that keeps the study and its jobs")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NoteView(_Frozen):
    """A note about a study."""

    id: int
    at: datetime
    author: str
    text: str


class CellJob(_Frozen):
    """The newest job of one repeat of a cell."""

    id: str
    repeat: int = Field(description="From 0")
    status: Status
    end_reason: EndReason | None
    paused: bool
    replaced: list[str] = Field(description="Earlier jobs of this repeat that ended and were replaced, oldest first")


class CellView(_Frozen):
    """One combination of the grid's values, and its jobs."""

    values: dict[str, Any]
    gpus: int
    jobs: list[CellJob] = Field(description="The jobs, sorted by repeat")


class StudyBest(_Frozen):
    """The best value of a study's goal among its jobs that succeeded."""

    metric: str
    value: float


class StudyLine(_Frozen):
    """A study in short. Its counts include only the newest job of each cell and repeat."""

    id: str
    name: str
    owner: str
    project: str
    varied: list[str] = Field(description="The fields of the grid, or of the search's space, in the same sequence")
    repeats: int
    target: float | None
    jobs: int = Field(description="Number of jobs: cells x repeats, or the trials of a search")
    counts: dict[Status, int]
    paused: int = Field(description="Number of paused jobs that have not ended")
    complete: bool = Field(description="Whether every job has ended, and a search has made all its trials")
    search: SearchSpec | None = Field(None, description="How a search chooses values. Null: the study has a grid")
    obstacle: str | None = Field(None, description="Why a search cannot begin its next trial now")
    cancel_requested_at: datetime | None
    created_at: datetime
    revision: int = Field(description="A number that grows when a user changes the study, not when its jobs change")


class ListedStudy(StudyLine):
    """A study in a list."""

    best: StudyBest | None = Field(
        None, description="Null: no job has succeeded, or it is not known which metric counts"
    )


class StudyView(StudyLine):
    """A study with its jobs."""

    base: dict[str, Any] = Field(description="The base spec, as it was sent")
    grid: dict[str, list[Any]] = Field(description="The grid, as it was sent")
    cells: list[CellView] = Field(
        description="The cells. The values of the last field vary fastest. Of a search: its trials, by their numbers"
    )
    notes: list[NoteView] = Field(description="Oldest first")


class CellPreview(_Frozen):
    """A cell that a submission would create."""

    values: dict[str, Any]
    plan: Plan


class StudyPreview(_Frozen):
    """The study that a submission would create."""

    name: str
    jobs: int
    repeats: int
    varied: list[str]
    search: SearchSpec | None = Field(None, description="How values are chosen. Null: the study has a grid")
    cells: list[CellPreview] = Field(
        description="The cells. Of a search: the ends of each dimension, the other fields with their first value"
    )
    warnings: list[str] = Field([], description="Possible problems, one sentence each")


class Interval(_Frozen):
    """A mean over repeats with its 95 % confidence interval (Student's t). A single value has no interval."""

    mean: float
    low: float | None
    high: float | None
    values: list[float] = Field(description="The value of each repeat, sorted by repeat")


class Goal(_Frozen):
    """The metric by which cells are compared."""

    metric: str
    mode: Literal["min", "max"] = Field(description="`min`: lower is better")

    @property
    def is_lower_better(self) -> bool:
        """Whether a lower value is better."""
        return self.mode == "min"

    @property
    def is_accuracy(self) -> bool:
        """Whether it is a share of samples. Differences are percentage points then."""
        return self.metric.removeprefix("val_") == "accuracy"


class Agreement(_Frozen):
    """Whether a cell reaches the same value of the goal as the same cell on the baseline's GPUs."""

    difference: float = Field(description="This cell's mean of the goal's metric - the baseline's")
    low: float | None = Field(description="Lower end of the difference's 95 % interval (Welch's t)")
    high: float | None
    agrees: bool | None = Field(description="Null: the repeats are too few, or differ too much, to decide")
    repeats_needed: int | None = Field(
        None,
        description="How many repeats would decide, if the difference and the spread stay. Null: it is decided, a cell "
        "has a single repeat, or more than 100",
    )


class CurveAgreement(_Frozen):
    """Whether the curves of a loss agree with those of the same cell on the baseline's GPUs, epoch by epoch."""

    epochs: int = Field(description="Number of epochs that are compared: those that every repeat of both cells has")
    difference: float | None = Field(
        description="Mean distance between the two mean curves. Null: a loss is no number, so it diverged"
    )
    relative: float | None = Field(description="The same as a share of the mean loss of the baseline")
    chance: float | None = Field(
        description="Chance alone exceeds this difference in 5 % of cases at most. Null: there are too few repeats"
    )
    agrees: bool | None = Field(
        description="Null: the repeats are too few, or differ too much, to decide, or both cells diverged"
    )
    repeats_needed: int | None = Field(None, description="As in `accuracy_agreement`")


class Speeds(_Frozen):
    """The figures of a cell that depend on how fast its repeats were."""

    wall_s: Interval | None
    samples_per_s: Interval | None
    epoch_s: Interval | None = None
    time_to_target_s: Interval | None
    gpu_hours_to_target: Interval | None
    gpu_hours: Interval | None
    cost: Interval | None = None


class Failure(_Frozen):
    """A reason why jobs of a cell failed or were cancelled."""

    end_reason: EndReason
    jobs: int = Field(description="Number of jobs that ended for it")
    error: str | None = Field(description="The first line of the error of one of them")


class CellReport(_Frozen):
    """One combination of values, over the repeats that succeeded."""

    values: dict[str, Any]
    gpus: int
    hosts: int | None = Field(description="The most hosts that one of its jobs used; null: none has run")
    jobs: list[str] = Field(description="The ids of its jobs, sorted by repeat")
    repeats: int = Field(description="Number of repeats that succeeded. The figures are computed from these")
    failed: int
    failures: list[Failure] = Field([], description="Why they failed or were cancelled, the most frequent reason first")
    unfinished: int
    device: DeviceKind | None = Field(
        None, description="What its slots were: GPUs, or CPU slots. Null: none has run, or its jobs differ"
    )
    beside_others: int = Field(
        0, description="Number of repeats that shared a host with other jobs of the study, which may have slowed them"
    )
    wall_s: Interval | None = Field(
        description="Time of the training: steps, validation and checkpoints, without set-up"
    )
    setup_s: Interval | None
    samples_per_s: Interval | None
    val_accuracy: Interval | None
    metrics: dict[str, Interval] = Field(
        {}, description="The best value of each metric of the jobs, by name. The goal is among the first 100"
    )
    epochs_run: Interval | None
    epoch_s: Interval | None = Field(None, description="Training time of an epoch: `wall_s` / `epochs_run`")
    allreduce_share: Interval | None = Field(
        None,
        description="Share of the steps' time in allreduce, 0..1. It includes waiting for slower ranks, and on a GPU "
        "the backward pass. Null: unknown, or one rank",
    )
    time_to_target_s: Interval | None = Field(
        description="Training time of the epochs up to the first one that reached the target. Null: not every repeat "
        "reached it"
    )
    gpu_hours_to_target: Interval | None = Field(description="GPUs x the time to the target")
    reached_target: int = Field(description="Number of repeats that reached the target")
    gpu_hours: Interval | None = Field(description="Slots x leased time, including set-up")
    cost: Interval | None = Field(
        None,
        description="What that time costs by the service's present prices. Null: one of the slots has no price",
    )
    speedup: float | None = Field(description="Mean wall_s on the baseline's GPUs / mean wall_s here")
    throughput_speedup: float | None = Field(description="Mean samples_per_s here / that on the baseline's GPUs")
    efficiency: float | None = Field(description="speedup x baseline GPUs / gpus; 1 is the ideal line")
    speedup_vs_cpu: float | None = Field(
        None,
        description="Mean wall_s of the same cell on the fewest CPU slots / mean wall_s here. Null: the grid does not "
        "vary `device`, or there is no result to compare",
    )
    throughput_vs_cpu: float | None = Field(
        None, description="Mean samples_per_s here / that of the same cell on the fewest CPU slots"
    )
    accuracy_agreement: Agreement | None = Field(description="Null for the baseline itself")
    loss_agreement: dict[str, CurveAgreement] = Field(
        {}, description="By the name of each loss that the jobs report. Empty for the baseline itself"
    )
    with_outliers: Speeds | None = Field(
        None, description="The figures of speed over all repeats that succeeded. Null: none of them is an outlier"
    )
    without_outliers: Speeds | None = Field(None, description="The same without the outliers")


class Outlier(_Frozen):
    """A repeat that stalled: it was far slower than the other repeats of its cell."""

    job_id: str
    cell: int = Field(description="Position in `cells`")
    figure: Literal["samples_per_s", "epoch_s"] = Field(
        description="What shows it. `epoch_s`: `wall_s` / `epochs_run` of the job"
    )
    value: float
    median: float = Field(description="The median of the cell's repeats")
    rule: str = Field(description="The rule in words")


class Baseline(_Frozen):
    """The GPU count against which speed-ups are measured."""

    gpus: int


class Target(_Frozen):
    """The value of the goal to which time and GPU-hours are measured."""

    metric: str = "val_accuracy"
    value: float
    chosen_by: str = Field(description="`study`, `request`, or `results`: most cells reach it")


class StudyReport(_Frozen):
    """The results of a study."""

    study_id: str
    name: str
    varied: list[str] = Field(description="The fields of the grid, or of the search's space, in the same sequence")
    repeats: int = Field(description="Number of repeats that the study has")
    complete: bool = Field(description="Whether every job has ended")
    scaling: Literal["weak", "strong"] | None = Field(
        description="strong: the global batch stays the same; weak: the batch per GPU stays the same"
    )
    device: DeviceKind | None = Field(
        None, description="What the slots of all cells were. Null: unknown, or both kinds"
    )
    baseline: Baseline | None
    goal: Goal | None = Field(None, description="Null: it is not known before the jobs report metrics")
    target: Target | None
    cells: list[CellReport]
    outliers: list[Outlier] = Field([], description="The repeats that stalled, sorted by cell and repeat")
    outliers_set_aside: bool = Field(
        True, description="Whether the cells' figures of speed are those without the outliers"
    )
    best: dict[str, int] = Field(description="The best cell by `goal`, time, ...: its position in `cells`")
    search: SearchReport | None = Field(None, description="What a search looks for. Null: the study has a grid")
    trials: list[TrialReport] | None = Field(None, description="The trials of a search, by their numbers")
    importances: dict[str, float] | None = Field(
        None, description="The share of each field in what makes a trial good; together 1. Null: too few trials"
    )
    findings: list[str] = Field(description="What the figures show, each with what limits it")
    next_steps: list[str] = Field([], description="What to do next, at most three")
    notes: list[NoteView] = Field(description="Oldest first")


class CellCurve(_Frozen):
    """The mean of the curves of a cell's repeats, over the epochs that all of them have."""

    repeats: int = Field(description="Number of repeats that it is the mean of")
    epoch: list[float] = Field(description="Ascending. Neighbouring epochs are joined where there are many")
    mean: list[float | None] = Field(description="Null: the value of a repeat is no number")
    low: list[float | None] = Field(description="The lowest value of any repeat")
    high: list[float | None]


class MetricCurves(_Frozen):
    """A metric of all cells."""

    metric: str
    cells: list[CellCurve | None] = Field(description="Sorted as the cells of the report. Null: there is no curve")


class StudyCurves(_Frozen):
    """The learning curves of a study: of the goal first, then of the losses."""

    study_id: str
    curves: list[MetricCurves]
