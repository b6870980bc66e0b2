"""The spec: what a person submits. It is validated strictly, and every default is filled in.

Read by every part. Pure pydantic, no I/O, so that the trainer may import it.

`InvalidSpec` (`jobs.model.problems`) names every wrong field of a text that is not a spec.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from jobs.model.printable import MOST_IN_LABEL, MOST_IN_NAME, label_text, name_text
from jobs.model.problems import InvalidSpec, field_problems
from jobs.model.spec_parts import (
    AllreduceSpec,
    CheckpointSpec,
    Column,
    DatasetSpec,
    EarlyStopping,
    EpochMetric,
    GpuModel,
    ModelName,
    ModelSpec,
    Pixels,
    ProbeSpec,
    Share,
    Source,
    SpecPart,
)
from jobs.model.synthetic import SyntheticData, WrongSynthetic, is_synthetic, synthetic_of
from jobs.model.yaml_text import load_yaml

__all__ = [
    "DEFAULT_PROJECT", "MAX_BYTES", "MAX_GPUS", "MAX_SECONDS", "SHORTHAND", "AllreduceSpec", "CheckpointSpec",
    "Column", "DatasetSpec", "EarlyStopping", "EpochMetric", "ModelSpec", "Name", "Pixels", "ProbeSpec",
    "ProjectName", "Share", "Source", "Spec", "SyntheticData", "WrongSynthetic", "is_plain_url", "is_synthetic",
    "merged", "parse_spec", "set_field", "spec_from", "synthetic_of",
]  # fmt: skip

# The functions check the length after the text is composed: before that, one typed letter may be two characters.
Name = Annotated[
    str, AfterValidator(name_text), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MOST_IN_NAME})
]
DEFAULT_PROJECT = "default"  # always exists, and is open to everybody
DEFAULT_MODEL = "lenet5"
ProjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=63)]
LabelValue = Annotated[str, AfterValidator(label_text), WithJsonSchema({"type": "string", "maxLength": MOST_IN_LABEL})]
MAX_SECONDS = 365 * 24 * 3600  # longer than any job; a timestamp can still hold a time that far away
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]

MAX_BYTES = 1024 * 1024
# A server or a driver may read these as a step up, a query, or a second filesystem around the first.
_AMBIGUOUS_IN_URL = re.compile(r"%2e|%2f|%5c|\\|::|[?#]", re.IGNORECASE)
MAX_GPUS = 4096


# For these objects a plain string is allowed. It sets the field named here.
SHORTHAND = {"dataset": "source", "model": "name"}


def _with_shorthand(name: str, text: Any, part: type[SpecPart]) -> BeforeValidator:
    """Accept a plain string (`text`) in place of the `part` of this name."""
    field = SHORTHAND[name]
    return BeforeValidator(
        lambda value: {field: value} if isinstance(value, str) else value, json_schema_input_type=text | part
    )


class Spec(SpecPart):
    """A training job to submit. A field that is left out has its default."""

    name: Name = Field(
        "job",
        description="The name in lists: [printable text](spec.md#names-and-labels) of any script on one line, up to 128"
        " characters.",
    )
    dataset: Annotated[DatasetSpec, _with_shorthand("dataset", Source, DatasetSpec)] = Field(
        description="A registered name as a plain string, or an object with the fields of a dataset."
    )
    model: Annotated[ModelSpec, _with_shorthand("model", ModelName, ModelSpec)] = Field(
        ModelSpec(name=DEFAULT_MODEL),
        json_schema_extra={"default": DEFAULT_MODEL},
        description="The name of a network as a plain string, or an object with the fields of a model.",
    )
    gpus: int = Field(
        1,
        ge=1,
        le=MAX_GPUS,
        description="The number of ranks: one per GPU, or one per CPU slot on hosts without GPUs.",
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
        " must be divisible by `gpus`.",
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=1_048_576,
        description="Samples in one step: of each GPU, or with `batch_per: global` of all GPUs together.",
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
    optimizer: Literal["adam", "nadam", "sgd"] = Field(
        "adam", description="`adam`, `nadam`, or `sgd` with a momentum of 0.9."
    )
    epochs: int = Field(
        30,
        ge=1,
        le=100_000,
        description="The largest number of passes over the data. Early stopping usually ends the job earlier.",
    )
    steps_per_epoch: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="The steps of one epoch. `null`: as many as the data fills with global batches.",
    )
    early_stopping: EarlyStopping | None = Field(
        EarlyStopping(), description="Stop when more epochs do not help. `null` turns it off."
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
    priority: int = Field(
        50,
        ge=0,
        le=100,
        description="0 to 100. The queue is sorted by priority, highest first, then age. If a job finds no room,"
        " running jobs of lower priority may be asked to save and wait.",
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
    seed: int = Field(
        42, ge=0, lt=2**32, description="Decides the initial weights, the split, and the sample order of every epoch."
    )
    labels: dict[LabelKey, LabelValue] = Field(
        {},
        max_length=64,
        description="Up to 64 [pairs of strings](spec.md#names-and-labels) to find jobs by:"
        " `hora ls --label purpose:example`.",
    )
    probe: ProbeSpec | None = Field(
        None,
        description="Makes the job a [batch probe](probe.md) instead of a training. `{}` uses the defaults of a probe.",
    )

    # A rule over two fields is checked at the later one, so that the answer names a field.
    @field_validator("min_gpus")
    @classmethod
    def _no_more_than_gpus(cls, min_gpus: int | None, info: ValidationInfo) -> int | None:
        gpus = info.data.get("gpus")
        if min_gpus is not None and gpus is not None and min_gpus > gpus:
            raise ValueError(f"min_gpus is {min_gpus}, more than gpus ({gpus})")
        return min_gpus

    @field_validator("gpu_model", "gpu_memory_gb", "mixed_gpus")
    @classmethod
    def _only_with_gpus(cls, value: object, info: ValidationInfo) -> object:
        if value and info.data.get("device") == "cpu":
            raise ValueError(f"{info.field_name} chooses GPUs, but device is cpu")
        return value

    @field_validator("batch_size")
    @classmethod
    def _divides_over_gpus(cls, batch_size: int, info: ValidationInfo) -> int:
        gpus = info.data.get("gpus")
        if info.data.get("batch_per") == "global" and gpus and batch_size % gpus:
            raise ValueError(f"a global batch of {batch_size} does not divide by {gpus} gpus")
        return batch_size


def parse_spec(text: str | bytes, *, syntax: Literal["json", "yaml"] = "json") -> Spec:
    """Read a spec from JSON or YAML text. Raises `InvalidSpec`."""
    return _validated(text if syntax == "json" else json.dumps(load_yaml(text)))


def spec_from(document: dict[str, Any]) -> Spec:
    """Read a spec from a parsed document, such as a stored spec. Raises `InvalidSpec`."""
    return _validated(json.dumps(document))


def set_field(document: dict[str, Any], names: Sequence[str], value: Any) -> None:
    """Set the field at the path `names` of a spec's document, which may have plain strings in place of objects."""
    *parents, last = names
    parent = document
    for name in parents:
        inner = parent.get(name)
        if isinstance(inner, str) and name in SHORTHAND:
            inner = {SHORTHAND[name]: inner}
        parent[name] = inner if isinstance(inner, dict) else {}
        parent = parent[name]
    parent[last] = value


def merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the changes applied: objects are merged, every other value replaces the old one.

    Null is a value, as in a spec: `{"early_stopping": None}` turns early stopping off.
    """
    result = dict(document)
    for key, value in changes.items():
        before = result.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result


def is_plain_url(url: str) -> bool:
    """Whether all servers and drivers read a URL in the same way: it has no steps up, escapes, query or user."""
    host, *parts = url.partition("://")[2].removesuffix("/").split("/")
    has_steps = not {".", ".."}.isdisjoint([host, *parts])
    return not (_AMBIGUOUS_IN_URL.search(url) or "@" in host or has_steps or "" in parts)


def _validated(text: str | bytes) -> Spec:
    try:
        return Spec.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, Spec)) from None
