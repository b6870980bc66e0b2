"""What a study is and what its report says, as the API takes and answers them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from jobs.model.plan import Plan
from jobs.model.spec import Name
from jobs.model.states import EndReason, Status

MAX_JOBS = 1000


def _plain(text: str) -> str:
    if any((ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 for letter in text):
        raise ValueError("control characters but line ends and tabs are not taken")
    return text


# Line ends are those of Unix, whatever the sender's.
Note = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000),
    AfterValidator(_plain),
    BeforeValidator(lambda text: text.replace("\r\n", "\n") if isinstance(text, str) else text),
]


class StudySpec(BaseModel):
    """A grid of jobs as a person asks for it. The base and each cell are checked as specs on their own."""

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
    repeats: int = Field(
        1, ge=1, le=100, description="Jobs of each cell. The second has the seed of the first + 1, and so on."
    )
    max_jobs: int = Field(100, ge=1, le=MAX_JOBS, description="A study with more jobs is refused. At most 1,000.")
    target: float | None = Field(
        None,
        gt=0,
        le=1,
        description="A `val_accuracy`. The report says the time and GPU-hours until it was reached. With `null` the"
        " report [chooses one](studies.md#the-report).",
    )
    note: Note | None = Field(None, description="The first of the study's notes.")


class NoteText(BaseModel):
    """A note as a person sends it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"text": "Two GPUs are enough for batches of 128."}]},
    )

    text: Note


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NoteView(_Frozen):
    """What somebody wrote down about a study."""

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
    replaced: list[str] = Field(description="Jobs that ended in its place before it, oldest first")


class CellView(_Frozen):
    """One combination of the grid's values, and its jobs."""

    values: dict[str, Any]
    gpus: int
    jobs: list[CellJob] = Field(description="By repeat")


class StudyLine(_Frozen):
    """A study in a list. Counts are of the newest job of each cell and repeat."""

    id: str
    name: str
    owner: str
    project: str
    varied: list[str] = Field(description="The fields of the grid, in its order")
    repeats: int
    target: float | None
    jobs: int = Field(description="Cells x repeats")
    counts: dict[Status, int]
    paused: int = Field(description="Of those that have not ended")
    complete: bool = Field(description="Every job has ended")
    cancel_requested_at: datetime | None
    created_at: datetime
    revision: int = Field(description="Grows with what is asked of it, not with its jobs")


class StudyView(StudyLine):
    """A study with its jobs."""

    base: dict[str, Any] = Field(description="As given")
    grid: dict[str, list[Any]] = Field(description="As given")
    cells: list[CellView] = Field(description="The last field's values vary fastest")
    notes: list[NoteView] = Field(description="Oldest first")


class CellPreview(_Frozen):
    """What a cell would be."""

    values: dict[str, Any]
    plan: Plan


class StudyPreview(_Frozen):
    """What a study would be."""

    name: str
    jobs: int
    repeats: int
    varied: list[str]
    cells: list[CellPreview]


class Interval(_Frozen):
    """A mean over repeats with its 95 % confidence interval (Student's t); no interval for a single value."""

    mean: float
    low: float | None
    high: float | None
    values: list[float] = Field(description="Of each repeat, in their order")


class Agreement(_Frozen):
    """Whether the accuracy of a cell is that of the same cell on the baseline's GPUs."""

    difference: float = Field(description="This cell's mean val_accuracy less the baseline's")
    low: float | None = Field(description="Of the 95 % interval of the difference (Welch's t)")
    high: float | None
    agrees: bool | None = Field(description="Null: too few repeats to tell")


class CellReport(_Frozen):
    """One combination of values, over the repeats that succeeded."""

    values: dict[str, Any]
    gpus: int
    hosts: int | None = Field(description="That its jobs were spread over, at most; null before any ran")
    jobs: list[str] = Field(description="The ids of its jobs, by repeat")
    repeats: int = Field(description="That succeeded; the figures rest on these")
    failed: int
    unfinished: int
    wall_s: Interval | None = Field(description="Of the training alone")
    setup_s: Interval | None
    samples_per_s: Interval | None
    val_accuracy: Interval | None
    epochs_run: Interval | None
    time_to_target_s: Interval | None = Field(
        description="Of the training: the epochs up to the first that got there; null where not every repeat did"
    )
    gpu_hours_to_target: Interval | None = Field(description="GPUs x that time")
    reached_target: int = Field(description="How many repeats got there")
    gpu_hours: Interval | None = Field(description="Slots x leased time, set-up included")
    speedup: float | None = Field(description="Mean wall_s at the baseline's GPUs over mean wall_s here")
    throughput_speedup: float | None = Field(description="The same of samples_per_s")
    efficiency: float | None = Field(description="speedup x baseline GPUs / gpus; 1 is the ideal line")
    accuracy_agreement: Agreement | None = Field(description="Null for the baseline itself")


class Baseline(_Frozen):
    """What speed-ups are measured against: the same cell on so many GPUs."""

    gpus: int


class Target(_Frozen):
    """The validation accuracy that time and GPU-hours are measured to."""

    metric: str = "val_accuracy"
    value: float
    chosen_by: str = Field(description="`study`, `request`, or `results`: what most cells reach")


class StudyReport(_Frozen):
    """How a study came out."""

    study_id: str
    name: str
    varied: list[str] = Field(description="The fields of the grid, in its order")
    repeats: int = Field(description="That were asked for")
    complete: bool = Field(description="Every job has ended")
    scaling: Literal["weak", "strong"] | None = Field(
        description="strong: more GPUs share a global batch that stays; weak: each keeps its batch"
    )
    baseline: Baseline | None
    target: Target | None
    cells: list[CellReport]
    best: dict[str, int] = Field(description="Position in `cells` of the most accurate, the fastest, ... cell")
    findings: list[str] = Field(description="What the figures say, a sentence each")
    notes: list[NoteView] = Field(description="Oldest first")
