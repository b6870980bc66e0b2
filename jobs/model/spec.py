"""The spec: what a person submits. It is validated strictly, and every default is filled in.

Read by every part. Pure pydantic, no I/O, so that the trainer may import it.

`InvalidSpec` (`jobs.model.problems`) names every wrong field of a text that is not a spec.
"""

import json
from collections.abc import Collection
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from jobs.model.alert_rules import MOST_RULES, AlertRule
from jobs.model.dataset_fields import DatasetSpec
from jobs.model.goals import best_by, is_better_lower
from jobs.model.origins import ORIGIN
from jobs.model.pools import POOL
from jobs.model.printable import MOST_IN_LABEL, MOST_IN_NAME, label_text, name_text
from jobs.model.problems import InvalidSpec, field_problems
from jobs.model.recipe_fields import (
    ClassWeights,
    OptimizerName,
    OptimizerSpec,
    ScheduleName,
    ScheduleSpec,
    from_name,
    unknown_class,
)
from jobs.model.script_fields import (
    Argument,
    Digest,
    EnvironmentName,
    EnvName,
    EnvValue,
    Params,
    Requirements,
)
from jobs.model.spec_parts import (
    EPOCH_METRICS,
    MAX_SECONDS,
    AllreduceSpec,
    CheckpointSpec,
    Column,
    EarlyStopping,
    GoalSpec,
    GpuModel,
    IdleSpec,
    ModelName,
    ModelSpec,
    Pixels,
    ProbeSpec,
    Share,
    Source,
    SpecPart,
)
from jobs.model.spec_rules import SpecRules
from jobs.model.synthetic import SyntheticData, WrongSynthetic, is_synthetic, synthetic_of
from jobs.model.task_rules import unfit_fields
from jobs.model.tasks import AnyTask, epoch_metrics
from jobs.model.yaml_text import load_yaml

__all__ = [
    "DEFAULT_PROJECT", "EPOCH_METRICS", "MAX_BYTES", "MAX_GPUS", "MAX_SECONDS", "SHORTHAND", "AlertRule",
    "AllreduceSpec", "CheckpointSpec", "Column", "DatasetSpec", "EarlyStopping", "GoalSpec", "IdleSpec", "ModelSpec",
    "Name", "OptimizerSpec", "Pixels", "ProbeSpec", "ProjectName", "ScheduleSpec", "Share", "Source", "Spec",
    "SyntheticData", "WrongSynthetic", "is_synthetic", "parse_spec", "spec_from", "synthetic_of",
    "unknown_class",
]  # fmt: skip

# The functions check the length after the text is composed: before that, one typed letter may be two characters.
Name = Annotated[
    str, AfterValidator(name_text), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MOST_IN_NAME})
]
DEFAULT_PROJECT = "default"  # always exists, and is open to everybody
DEFAULT_MODEL = "lenet5"
ProjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
JOB_ID = r"^[0-9a-z]{1,32}$"
DEFAULT_NAME = "job"  # of a spec without a name
MOST_AWAITED = 32  # jobs that a job names in `after`
PoolName = Annotated[str, StringConstraints(pattern=POOL)]
JobId = Annotated[str, StringConstraints(pattern=JOB_ID), Field(json_schema_extra={"format": "job-id"})]
OriginText = Annotated[str, StringConstraints(pattern=ORIGIN), Field(json_schema_extra={"format": "checkpoint-of-job"})]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=63)]
LabelValue = Annotated[str, AfterValidator(label_text), WithJsonSchema({"type": "string", "maxLength": MOST_IN_LABEL})]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
Priority = Annotated[int, Field(ge=0, le=100)]
DEFAULT_PRIORITY = 50
MOST_LABELS = 64

MAX_BYTES = 1024 * 1024
MAX_GPUS = 4096


# For these objects a plain string is allowed. It sets the field named here.
SHORTHAND = {"dataset": "source", "model": "name", "optimizer": "name", "schedule": "name"}


def _with_shorthand(name: str, text: Any, part: type[SpecPart]) -> BeforeValidator:
    """Accept a plain string (`text`) in place of the `part` of this name."""
    field = SHORTHAND[name]
    return BeforeValidator(
        lambda value: {field: value} if isinstance(value, str) else value, json_schema_input_type=text | part | None
    )


def _by_name(part: type[SpecPart], names: Any, default: str | None = None) -> tuple[BeforeValidator, ...]:
    """Accept a plain name in place of the `part`, and null for the default."""
    accept = from_name(get_args(names))
    return (
        BeforeValidator(
            lambda value: accept(default if value is None else value),
            json_schema_input_type=names | part if default is None else names | part | None,
        ),
    )


class Spec(SpecRules):
    """A training job to submit. A field that is left out has its default."""

    name: Name = Field(
        DEFAULT_NAME,
        description="The name in lists: [printable text](spec.md#names-and-labels) in any writing system, on one"
        " line, up to 128 characters. With the default, the job is called after what it is, such as"
        " `digits-lenet5-2x64`.",
    )
    # `code` comes first: what other fields may be, and their defaults, depends on it.
    code: Digest | None = Field(
        None,
        description="The SHA-256 of an archive with [your own training code](scripts.md), which `POST /v1/code` took."
        " `null`: Hora trains `model` in its own loop.",
    )
    command: list[Argument] | None = Field(
        None,
        validate_default=True,
        min_length=1,
        max_length=256,
        description="What each rank runs in the folder of `code`: the program and its arguments, which no shell reads."
        " [Placeholders](scripts.md#placeholders) such as `{params.lr}` and `{batch_size}` are filled in.",
    )
    params: Params = Field(
        {},
        description="Any JSON object, handed to the script as `run.params`. Studies vary its fields: `params.lr`.",
    )
    env: dict[EnvName, EnvValue] = Field(
        {},
        max_length=64,
        description="Variables for the environment of the script. Hora's own, those of Horovod, NCCL, Python and the"
        " loader [cannot be set](scripts.md#variables).",
    )
    environment: EnvironmentName = Field(
        "default",
        description="The [Python environment](scripts.md#environments) of the script: `default` is that of the worker,"
        " `empty` has no packages. The operator can list others.",
    )
    requirements: Requirements | None = Field(
        None,
        description="Packages that the script needs [beside its environment](scripts.md#requirements): a list such as"
        " `[einops>=0.8]`, or `requirements.txt` for that file of the archive. Only where the operator allows it.",
    )
    task: AnyTask = Field(
        "auto",
        description="What the network learns: `classification` (one class of several), `regression` (numbers) or"
        " `multilabel` (several classes at once). It decides the [loss and the metrics](spec.md#tasks). `auto`: as the"
        " [labels](data.md#labels) say.",
    )
    dataset: Annotated[DatasetSpec | None, _with_shorthand("dataset", Source, DatasetSpec)] = Field(
        None,
        validate_default=True,
        description="A registered name as a plain string, or an object with the fields of a dataset. Required without"
        " `code`; a script gets its [paths](scripts.md#data).",
    )
    model: Annotated[ModelSpec | None, _with_shorthand("model", ModelName, ModelSpec)] = Field(
        ModelSpec(name=DEFAULT_MODEL),
        json_schema_extra={"default": DEFAULT_MODEL},
        description="The name of a network as a plain string, or an object with the fields of a model. `null` for a"
        " script, which builds its own.",
    )
    gpus: int = Field(
        1,
        ge=1,
        le=MAX_GPUS,
        description="The number of GPUs, or of CPU slots on hosts without GPUs. Each has a rank of its own, unless"
        " `strategy` is `mirrored`.",
    )
    strategy: Literal["horovod", "mirrored"] = Field(
        "horovod",
        description="How the GPUs train together. `horovod`: a process for each. `mirrored`: one process with a copy of"
        " the network on each, [all on one host](mirrored.md).",
    )
    min_gpus: int | None = Field(
        None,
        ge=1,
        le=MAX_GPUS,
        description="The fewest GPUs that a restart may use when the hosts that are alive cannot hold `gpus` any more."
        " Batch and rate are then resolved again. `null` means `gpus`.",
    )
    device: Literal["auto", "gpu", "cpu"] = Field(
        "auto",
        description="`gpu` or `cpu`: use only hosts of that kind. `auto` uses CPU slots only if no registered"
        " host has GPUs in service.",
    )
    gpu_model: GpuModel | None = Field(
        None,
        description="Use only GPUs whose name contains this text, in upper or lower case: `h100`, `A100-SXM4-80GB`."
        " `hora hosts` shows the names.",
    )
    gpu_memory_gb: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Use only GPUs with at least this much memory, in GB (10^9 bytes). `hora hosts show NAME` shows"
        " theirs.",
    )
    mixed_gpus: bool = Field(
        False,
        description="Whether the job may run on GPUs of different models at once. Each step then takes as long as on"
        " the slowest one.",
    )
    batch_per: Literal["gpu", "global"] = Field(
        "gpu",
        description="`gpu`: `batch_size` is the batch of each GPU. `global`: it is the batch of all GPUs together, and"
        " must be divisible by `gpus` x `accumulate`.",
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=1_048_576,
        description="Samples in one batch: of each GPU, or with `batch_per: global` in a step of all GPUs together.",
    )
    accumulate: int = Field(
        1,
        ge=1,
        le=10_000,
        description="How many batches of a GPU make a step, one after the other in the memory of one. The step averages"
        " their gradients, and the [global batch](spec.md#accumulate) is so many times as large.",
    )
    learning_rate: float = Field(0.001, gt=0, le=1000, description="The rate before scaling.")
    lr_scaling: Literal["none", "linear", "sqrt", "two_thirds"] = Field(
        "none",
        description="Multiply the rate by (global batch / `base_batch`) to the power 1 (`linear`), 1/2 (`sqrt`), 2/3"
        " (`two_thirds`).",
    )
    base_batch: int | None = Field(
        None,
        ge=1,
        le=1_048_576,
        description="The batch that `learning_rate` was found with. `null` means the batch of one GPU.",
    )
    warmup_epochs: int = Field(
        0,
        ge=0,
        le=10_000,
        description="The number of epochs in which the rate climbs from `learning_rate` to its scaled value.",
    )
    schedule: Annotated[ScheduleSpec, *_by_name(ScheduleSpec, ScheduleName, "constant")] = Field(
        ScheduleSpec(name="constant"),
        json_schema_extra={"default": "constant"},
        description="How the rate falls [after the warm-up](spec.md#schedules): a name as a plain string, or an object"
        " with the fields of a schedule.",
    )
    optimizer: Annotated[OptimizerSpec, *_by_name(OptimizerSpec, OptimizerName)] = Field(
        OptimizerSpec(name="adam"),
        json_schema_extra={"default": "adam"},
        description="The [optimizer](spec.md#optimizers): a name as a plain string, or an object with the fields of an"
        " optimizer.",
    )
    weight_decay: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How strongly a step pulls weights towards 0, but [no biases and norms](spec.md#weight-decay)."
        " `null`: 0.01 for `adamw` and `lamb`, 0 for the others.",
    )
    clip_norm: float | None = Field(
        None,
        ge=1e-6,
        le=1e9,
        description="The longest that the gradients of a step may be, all weights together, after they were averaged"
        " over the ranks. Longer ones are shortened. `null`: any length.",
    )
    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The share of each label that training spreads over all classes. Validation counts whole labels."
        " Not for a regression.",
    )
    class_weights: ClassWeights | None = Field(
        None,
        description="How much a sample of each class [counts in the loss of training](spec.md#class-weights):"
        " `balanced` for the same sum in every class, or an object with weights by the names of classes. Classes that"
        " are not named have 1. Only for classification.",
    )
    epochs: int = Field(
        30,
        ge=1,
        le=100_000,
        description="The largest number of passes over the data. Early stopping usually ends the job earlier.",
    )
    continue_from: OriginText | None = Field(
        None,
        description="Continue from a [checkpoint of a job that has ended](spec.md#continuing-an-ended-job):"
        " `job:ID@EPOCH`, or `job:ID` for the newest one that is kept. `epochs` counts from the beginning of that job.",
    )
    steps_per_epoch: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="The steps of one epoch. `null`: as many as the data fills with global batches.",
    )
    validation_steps: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="Validate on so many batches of all GPUs only: the same samples in every epoch, chosen at"
        " random. `null`: on the whole validation part.",
    )
    goal: GoalSpec | None = Field(
        None,
        description="Which metric says how good the job is, and whether lower is better. `null`: `val_accuracy`, in a"
        " regression `val_loss`, with multilabel data `val_auc`; for a script [what its metrics are"
        " called](scripts.md#goal).",
    )
    early_stopping: EarlyStopping | None = Field(
        EarlyStopping(),
        description="Stop when more epochs do not help. `null` turns it off, which is the default for a script.",
    )
    checkpoint: CheckpointSpec = Field(
        CheckpointSpec(), description="When to save the state from which a restart continues."
    )
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = Field(
        "float32",
        description="`float32`, `mixed_float16` (the loss is scaled as needed) or `mixed_bfloat16`. Weights stay in"
        " float32.",
    )
    jit: bool = Field(
        False,
        description="Compile the forward and the backward pass with XLA. The first step takes longer, later ones may be"
        " shorter. A job whose network XLA cannot compile ends with `bad_data`. Dropout draws other random numbers.",
    )
    allreduce: AllreduceSpec = Field(AllreduceSpec(), description="How the ranks average their gradients.")
    placement: Literal["pack", "single_host", "spread"] = Field(
        "pack",
        description="Which hosts to use: `pack` takes the fewest that have room, `single_host` always one, `spread` as"
        " many as possible. A job on several hosts takes the [same number of slots](spec.md#where-a-job-runs) on each.",
    )
    pool: PoolName | None = Field(
        None,
        description="The [pool](slurm.md) that runs the job, such as `slurm:main`. `null`: hosts of the service that"
        " have room, and if there are none, any pool.",
    )
    priority: Priority = Field(
        DEFAULT_PRIORITY,
        description="0 to 100. The queue is sorted by priority, highest first, then age. If a job finds no room,"
        " running jobs of lower priority may be asked to save and wait.",
    )
    after: list[JobId] = Field(
        [],
        max_length=MOST_AWAITED,
        description="Up to 32 ids of jobs to [wait for](scheduling.md#a-job-that-waits-for-others). The job is placed"
        " when all of them have succeeded. If one of them fails or is cancelled, this job is cancelled.",
    )
    project: ProjectName = Field(
        DEFAULT_PROJECT,
        description="The [project](projects.md) that the job counts under. The project's quotas apply.",
    )
    max_restarts: int = Field(
        3,
        ge=0,
        le=1000,
        description="How many restarts a job may have after its own failures. A lost host, a pause, and making room for"
        " another job [do not count](states.md).",
    )
    time_limit_s: Seconds | None = Field(
        None,
        description="The most seconds that an attempt may take, up to a year (31536000). It also says when the slots"
        " come free at the latest. So a short job may use slots that are kept for a larger one. `null`: no limit.",
    )
    stall_timeout_s: Seconds = Field(
        600,
        description="An attempt counts as stalled after this many seconds without a step of any rank. At most a year.",
    )
    idle: IdleSpec | None = Field(
        None,
        description="What to do when [nobody uses the slots](idle.md). `null`: as its project says, and if that says"
        " nothing, nothing.",
    )
    alerts: list[AlertRule] = Field(
        [],
        max_length=MOST_RULES,
        description="Up to 10 rules that [tell people](alerts.md#by-a-rule) of a metric or a line of the log while the"
        " job runs: `[{when: val_loss > 3}]`.",
    )
    seed: int = Field(
        42, ge=0, lt=2**32, description="Decides the initial weights, the split, and the sample order of every epoch."
    )
    labels: dict[LabelKey, LabelValue] = Field(
        {},
        max_length=MOST_LABELS,
        description="Up to 64 [pairs of strings](spec.md#names-and-labels) to find jobs by:"
        " `hora ls --label purpose:example`.",
    )
    probe: ProbeSpec | None = Field(
        None,
        description="Makes the job a [batch probe](probe.md) instead of a training. `{}` uses the defaults of a probe.",
    )

    @property
    def own_dataset(self) -> DatasetSpec:
        """The dataset of a job that Hora trains in its own loop, which always has one."""
        assert self.dataset is not None
        return self.dataset

    @property
    def own_model(self) -> ModelSpec:
        """The model of a job that Hora trains in its own loop, which always has one."""
        assert self.model is not None
        return self.model

    @property
    def is_script(self) -> bool:
        """Whether the job runs a person's own code, and not the loop of Hora."""
        return self.code is not None

    def ranks_on(self, gpus: int) -> int:
        """The number of ranks on so many GPUs or CPU slots: the processes that train."""
        return 1 if self.strategy == "mirrored" else gpus

    def best_by(self, names: Collection[str]) -> str | None:
        """The metric that decides which epoch is the best: that of early stopping, else the goal.

        Without both it is chosen from the `names` of the reported metrics. Those of Hora's own loop are those of the
        task. There the default of early stopping, `val_accuracy`, stands for the default metric of the task.
        """
        monitor = None if self.early_stopping is None else self.early_stopping.monitor
        return best_by(self.goal, monitor, names, is_script=self.is_script)

    def is_lower_better(self, metric: str) -> bool:
        """Whether a lower value of this metric is better: as the goal says, else by its name."""
        return is_better_lower(metric, self.goal)


def parse_spec(text: str | bytes, *, syntax: Literal["json", "yaml"] = "json") -> Spec:
    """Read a spec from JSON or YAML text. Raises `InvalidSpec`."""
    return _validated(text if syntax == "json" else json.dumps(load_yaml(text)))


def spec_from(document: dict[str, Any]) -> Spec:
    """Read a spec from a parsed document, such as a stored spec. Raises `InvalidSpec`."""
    return _validated(json.dumps(document))


def _validated(text: str | bytes) -> Spec:
    try:
        spec = Spec.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, Spec)) from None
    if spec.task != "auto" and (problems := unfit_fields(spec, spec.task, epoch_metrics(spec.task))):
        raise InvalidSpec(problems)
    return spec
