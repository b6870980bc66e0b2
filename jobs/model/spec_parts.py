"""The parts of a spec, for `jobs.model.spec`: model, goal, early stopping, idle slots and others. Pure.

A field's description is written only here. It is Markdown, and its links are relative to docs/. The tables there,
/openapi.json, the dashboard's form and the help of the command line are made from it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

from jobs.model.goals import METRIC_NAME, is_better_lower
from jobs.model.tasks import epoch_metrics

# A `format` names the syntax of a text: see tests/fuzz/texts.py.
_OneLine = StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=1024)
Source = Annotated[str, _OneLine, Field(json_schema_extra={"format": "source"})]
Weights = Annotated[str, _OneLine, Field(json_schema_extra={"format": "weights"})]
ModelName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$", max_length=255),
    Field(json_schema_extra={"format": "model"}),
]
Column = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=255)]
Share = Annotated[float, Field(gt=0, lt=1)]
Pixels = Annotated[int, Field(ge=1, le=4096)]
MAX_SECONDS = 365 * 24 * 3600  # longer than any job; a timestamp can still hold a time that far away
GpuModel = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9 ._/()+-]*[A-Za-z0-9)+])?$", max_length=64)
]
EPOCH_METRICS = epoch_metrics("auto")  # of all tasks
MetricName = Annotated[str, StringConstraints(pattern=METRIC_NAME)]


class SpecPart(BaseModel):
    """A part of a spec: frozen, without unknown fields, coercion, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)


class ModelSpec(SpecPart):
    """Which network to train, and from which weights."""

    name: ModelName = Field(description="A network of the [zoo](models.md) (`GET /v1/models`), or `module:function`.")
    weights: Weights = Field(
        "none", description="The [initial weights](models.md#weights): `none`, `imagenet`, a path, or `job:ID`."
    )
    freeze_base: bool = Field(
        True,
        description="Train only the last layer, and keep the loaded weights of all others. Without loaded weights"
        " nothing is frozen.",
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="The share of activations that training drops before the last layer."
    )

    @property
    def weights_are_a_file(self) -> bool:
        """Whether the weights are a path or a URL with an ending that Keras gives to weights."""
        return self.weights.endswith((".h5", ".hdf5", ".keras")) and not self.weights.startswith("job:")


class GoalSpec(SpecPart):
    """The metric that says how good a job is: reports, advice and lists use it."""

    metric: MetricName = Field(
        description="The name of the metric: one that the script reports, such as `val_iou`. Without a script: one [of"
        " the task](spec.md#tasks), such as `val_accuracy` or `val_rmse`."
    )
    mode: Literal["min", "max"] | None = Field(
        None,
        description="`min`: lower is better. `max`: higher is better. `null`: [by the name](scripts.md#goal), so that"
        " losses, errors and times are better when lower.",
    )

    @property
    def is_lower_better(self) -> bool:
        """Whether a lower value is better."""
        return is_better_lower(self.metric) if self.mode is None else self.mode == "min"


class EarlyStopping(SpecPart):
    """Stop when `monitor` has not improved by `min_delta` for `patience` epochs.

    Losses, errors and times (`_s`, but not `_per_s`) are better when lower, all other metrics when higher.
    """

    monitor: MetricName = Field(
        "val_accuracy",
        json_schema_extra={"examples": list(EPOCH_METRICS)},
        description="The metric to watch, averaged over all ranks: one [of the task](spec.md#tasks), `samples_per_s`,"
        " `epoch_s`, `data_wait_s` or `allreduce_s`. Losses, errors and times are better when lower, the others when"
        " higher. A script: any metric that it reports. If there is a `goal`, its metric is the default. Where a task"
        " has no accuracy, the default stands for `val_auc` (multilabel) or `val_loss` (regression).",
    )
    patience: int = Field(3, ge=1, le=10_000, description="How many epochs without an improvement end the training.")
    min_delta: float = Field(0.001, ge=0, description="The smallest change that counts as an improvement.")
    restore_best_weights: bool = Field(True, description="Keep the weights of the best epoch instead of the last one.")


class CheckpointSpec(SpecPart):
    """How often to save a checkpoint, from which a restart continues, and how many to keep."""

    every_epochs: int = Field(1, ge=1, le=10_000, description="The number of epochs between two checkpoints.")
    keep: int = Field(2, ge=1, le=1000, description="How many complete checkpoints to keep.")


class AllreduceSpec(SpecPart):
    """The messages in which the ranks average their gradients."""

    compression: Literal["none", "fp16"] = Field(
        "none",
        description="`fp16`: gradients travel as 16-bit numbers, which halves what is sent and loses digits. The update"
        " itself stays in float32. A sum over the ranks above 65,504 becomes infinite: the loss diverges, or in"
        " `mixed_float16` the step is skipped.",
    )
    bucket_mb: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Gradients are sent in messages of about this many MB (10^6 bytes), each as soon as the backward"
        " pass has computed it. `null`: 25 on GPUs; on CPUs one message for all. With `jit` all are ready at once.",
    )


class IdleSpec(SpecPart):
    """From when on the slots of a job count as idle, and what follows."""

    below: float = Field(
        5,
        gt=0,
        le=100,
        description="A slot that is used less than this, in percent, is idle: a GPU by its utilization, a CPU slot by"
        " the CPU that its rank takes of its share.",
    )
    for_s: float = Field(
        1800,
        ge=60,
        le=MAX_SECONDS,
        description="For how many seconds without a break all slots must be idle: from a minute to a year (31536000).",
    )
    action: Literal["warn", "pause", "stop"] = Field(
        "warn",
        description="`warn`: say so on the job. `pause`: save, and wait until a person resumes the job. `stop`: end the"
        " job, as a cancel does. `pause` and `stop` warn at half of the time.",
    )


_LEAST_BATCH = 8  # that a probe tries for a spec with a larger one


class ProbeSpec(SpecPart):
    """Short runs with doubling batches instead of a training. They show where throughput stops growing, and what fits.

    A batch is that of one GPU. The probe ends at `largest`. It ends earlier if a batch does not fit into memory, the
    data has too few samples, or a step takes too long.
    """

    smallest: int | None = Field(
        None,
        ge=1,
        le=1_048_576,
        description="The first batch of one GPU to try. Each next one is twice as large. `null`: the spec's own batch,"
        " halved as often as it stays 8 or more. So the own batch is measured too.",
    )
    largest: int = Field(4096, ge=1, le=1_048_576, description="The largest batch to try.")
    seconds: float = Field(
        3.0,
        gt=0,
        le=3600,
        description="About how long the steps of each batch are timed, in seconds. If a single step takes longer, no"
        " larger batch is tried.",
    )

    @field_validator("largest")
    @classmethod
    def _no_less_than_smallest(cls, largest: int, info: ValidationInfo) -> int:
        smallest = info.data.get("smallest")
        if smallest is not None and largest < smallest:
            raise ValueError(f"largest is {largest}, less than smallest ({smallest})")
        return largest

    def batches(self, own: int) -> list[int]:
        """The batches of one GPU to try. Each is twice the one before. `own` is that of the spec."""
        if self.smallest is not None:
            return [self.smallest << doublings for doublings in range((self.largest // self.smallest).bit_length())]
        sizes = (own >> -power if power < 0 else own << power for power in range(-20, 21))
        least = min(own, self.largest, _LEAST_BATCH)
        return [size for size in sizes if least <= size <= self.largest] or [self.largest]
