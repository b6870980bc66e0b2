"""The spec: what a person asks for, validated strictly and complete with every default.

Read by every part. Pure pydantic, no I/O, so that the trainer may import it.

    InvalidSpec      a text that is not a spec; `problems` names every wrong field
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$", max_length=128)]
DEFAULT_PROJECT = "default"  # open to everybody, and always there
DEFAULT_MODEL = "lenet5"
ProjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=63)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=255)]
Source = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=1024)]
Column = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=255)]
Share = Annotated[float, Field(gt=0, lt=1)]
Pixels = Annotated[int, Field(ge=1, le=4096)]
Augmentation = Literal["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270"]
EpochMetric = Literal[
    "loss", "accuracy", "val_loss", "val_accuracy", "samples_per_s", "epoch_s", "data_wait_s", "allreduce_s"
]

MAX_BYTES = 1024 * 1024
# What a server or a driver may take for a step up, a query, or a second filesystem around the first.
_AMBIGUOUS_IN_URL = re.compile(r"%2e|%2f|%5c|\\|::|[?#]", re.IGNORECASE)
MAX_GPUS = 4096


class _Part(BaseModel):
    """A piece of a spec: frozen, no unknown fields, no coercion, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)


class DatasetSpec(_Part):
    """Which samples to train on, and how the ranks share them."""

    source: Source
    format: Literal["auto", "images", "parquet", "arrays", "synthetic"] = "auto"
    label: Column = "label"
    image_size: Annotated[tuple[Pixels, Pixels] | None, Field(strict=False)] = None  # (height, width)
    validation: Share | Source = 0.1
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    sharding: Literal["shard", "steps"] = "shard"
    shuffle_buffer: Annotated[int, Field(ge=1, le=10_000_000)] = 4096
    cache: Literal["none", "memory", "disk"] = "none"
    cache_limit_gb: Annotated[float, Field(gt=0, le=100_000)] = 20
    augment: Annotated[list[Augmentation], Field(max_length=5)] = []


class ModelSpec(_Part):
    """Which network to train, and from which weights."""

    name: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$", max_length=255)
    ]
    weights: Source = "none"  # none | imagenet | a path | job:ID
    freeze_base: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class EarlyStopping(_Part):
    """Stop when `monitor` has not improved by `min_delta` for `patience` epochs.

    A loss and a time (`_s`, but not `_per_s`) are better when lower, everything else when higher.
    """

    monitor: EpochMetric = "val_accuracy"
    patience: Annotated[int, Field(ge=1, le=10_000)] = 3
    min_delta: Annotated[float, Field(ge=0)] = 0.001
    restore_best_weights: bool = True


class CheckpointSpec(_Part):
    """How often to save what a restart goes on from, and how many to keep."""

    every_epochs: Annotated[int, Field(ge=1, le=10_000)] = 1
    keep: Annotated[int, Field(ge=1, le=1000)] = 2


class ProbeSpec(_Part):
    """Short runs over doubling batches instead of a training: where throughput stops growing, and what fits.

    A batch is one GPU's. The probe ends at `largest`, or sooner where memory, the data or patience is at its end.
    """

    smallest: Annotated[int, Field(ge=1, le=1_048_576)] = 8
    largest: Annotated[int, Field(ge=1, le=1_048_576)] = 4096
    seconds: Annotated[float, Field(gt=0, le=3600)] = 3.0  # of timed steps with each batch; a step may take as long

    @field_validator("largest")
    @classmethod
    def _no_less_than_smallest(cls, largest: int, info: ValidationInfo) -> int:
        smallest = info.data.get("smallest")
        if smallest is not None and largest < smallest:
            raise ValueError(f"largest is {largest}, less than smallest ({smallest})")
        return largest

    @property
    def batches(self) -> list[int]:
        """The batches to try, each twice the one before."""
        return [self.smallest << doublings for doublings in range((self.largest // self.smallest).bit_length())]


# A plain string may stand for one of these objects: the field of it that the string is.
SHORTHAND = {"dataset": "source", "model": "name"}


def _named(name: str, part: type[_Part]) -> BeforeValidator:
    """Let a plain string stand for the `part` of this name."""
    field = SHORTHAND[name]
    return BeforeValidator(
        lambda value: {field: value} if isinstance(value, str) else value, json_schema_input_type=str | part
    )


class Spec(_Part):
    """A training job as a person asks for it; a field left out has the default written here."""

    name: Name = "job"
    dataset: Annotated[DatasetSpec, _named("dataset", DatasetSpec)]
    model: Annotated[
        ModelSpec, _named("model", ModelSpec), Field(json_schema_extra={"default": DEFAULT_MODEL})
    ] = ModelSpec(name=DEFAULT_MODEL)  # fmt: skip
    gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)] = 1
    min_gpus: Annotated[int | None, Field(ge=1, le=MAX_GPUS)] = None  # None: `gpus`
    device: Literal["auto", "gpu", "cpu"] = "auto"
    batch_per: Literal["gpu", "global"] = "gpu"
    batch_size: Annotated[int, Field(ge=1, le=1_048_576)] = 32
    learning_rate: Annotated[float, Field(gt=0, le=1000)] = 0.001
    lr_scaling: Literal["none", "linear", "sqrt", "two_thirds"] = "none"
    base_batch: Annotated[int | None, Field(ge=1, le=1_048_576)] = None  # None: the batch of one GPU
    warmup_epochs: Annotated[int, Field(ge=0, le=10_000)] = 0
    optimizer: Literal["adam", "nadam", "sgd"] = "adam"
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 30
    steps_per_epoch: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    early_stopping: EarlyStopping | None = EarlyStopping()
    checkpoint: CheckpointSpec = CheckpointSpec()
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    placement: Literal["pack", "single_host", "spread"] = "pack"
    priority: Annotated[int, Field(ge=0, le=100)] = 50  # higher first
    project: ProjectName = DEFAULT_PROJECT
    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    time_limit_s: Annotated[float | None, Field(gt=0)] = None
    stall_timeout_s: Annotated[float, Field(gt=0)] = 600
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=64)] = {}
    probe: ProbeSpec | None = None  # a batch probe instead of a training

    # A rule over two fields is checked at the later one, so that the answer names a field.
    @field_validator("min_gpus")
    @classmethod
    def _no_more_than_gpus(cls, min_gpus: int | None, info: ValidationInfo) -> int | None:
        gpus = info.data.get("gpus")
        if min_gpus is not None and gpus is not None and min_gpus > gpus:
            raise ValueError(f"min_gpus is {min_gpus}, more than gpus ({gpus})")
        return min_gpus

    @field_validator("batch_size")
    @classmethod
    def _divides_over_gpus(cls, batch_size: int, info: ValidationInfo) -> int:
        gpus = info.data.get("gpus")
        if info.data.get("batch_per") == "global" and gpus and batch_size % gpus:
            raise ValueError(f"a global batch of {batch_size} does not divide by {gpus} gpus")
        return batch_size


@dataclass(frozen=True)
class FieldProblem:
    """One wrong field: its dotted path, what came (shortened), and what is allowed."""

    field: str
    message: str
    received: str | None = None


class InvalidSpec(ValueError):
    """The text is not a spec; `problems` lists every wrong field."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in problems))


class _YamlLoader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but with JSON's types: 1e-3 is a number and 2030-01-01 is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> yaml.Node | None:
        """The document before its values are built: a few lines of aliases of aliases may stand for gigabytes."""
        node = super().get_single_node()
        if node is not None and _characters(node, {}) > MAX_BYTES:
            raise yaml.YAMLError("with every alias written out it is larger than 1 MiB")
        return node


def _characters(node: yaml.Node, lengths: dict[int, float]) -> float:
    """About how long a document is with every alias written out; infinite for one that contains itself."""
    if id(node) not in lengths:
        lengths[id(node)] = math.inf
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        inner = len(parts) if isinstance(parts, str) else sum(_characters(part, lengths) for part in parts)
        lengths[id(node)] = 1 + inner
    return lengths[id(node)]


_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)
# PyYAML's constructors trust what an explicit tag promises: `!!int ""` is an IndexError, `!!bool x` a KeyError.
_YAML_ERRORS = (
    yaml.YAMLError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def parse_spec(text: str | bytes, *, syntax: Literal["json", "yaml"] = "json") -> Spec:
    """Read a spec from JSON or YAML text. Raises `InvalidSpec`."""
    return _validated(text if syntax == "json" else json.dumps(load_yaml(text)))


def load_yaml(text: str | bytes) -> Any:
    """The value of YAML text, if JSON can hold it too. Raises `InvalidSpec`."""
    try:
        document = yaml.load(text, _YamlLoader)  # noqa: S506 - a safe loader
        json.dumps(document)
    except _YAML_ERRORS as error:
        raise InvalidSpec([FieldProblem("", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    return document


def spec_from(document: dict[str, Any]) -> Spec:
    """Read a spec from a parsed document, such as a stored spec. Raises `InvalidSpec`."""
    return _validated(json.dumps(document))


def set_field(document: dict[str, Any], names: Sequence[str], value: Any) -> None:
    """Set the field at the path `names` of a spec's document, which may have plain strings for objects."""
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
    """The document with changes laid over it: objects are merged, every other value replaces the old one.

    Null is a value, as in a spec: `{"early_stopping": None}` turns early stopping off.
    """
    result = dict(document)
    for key, value in changes.items():
        before = result.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result


def is_plain_url(url: str) -> bool:
    """Whether every server and driver reads a URL in the same way: without steps up, escapes, a query or a user."""
    host, *parts = url.partition("://")[2].removesuffix("/").split("/")
    has_steps = not {".", ".."}.isdisjoint([host, *parts])
    return not (_AMBIGUOUS_IN_URL.search(url) or "@" in host or has_steps or "" in parts)


def _validated(text: str | bytes) -> Spec:
    try:
        return Spec.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, Spec)) from None


# pydantic puts the branch of a union into the path; it is no field of the spec.
_UNION_TAGS = {"constrained-float", "constrained-str"}


def field_problems(error: ValidationError, model: type[BaseModel]) -> list[FieldProblem]:
    """Every wrong field of a pydantic error of this model, in the order of the fields."""
    return [
        FieldProblem(
            field=".".join(str(part) for part in detail["loc"] if part not in _UNION_TAGS),
            message=_unknown_field(detail["loc"], model)
            if detail["type"] == "extra_forbidden"
            else detail["msg"].removeprefix("Value error, "),
            received=None if detail["type"] == "missing" else _shortened(detail["input"]),
        )
        for detail in error.errors(include_url=False)
    ]


def _unknown_field(path: Sequence[str | int], model: type[BaseModel]) -> str:
    """The message for a field that the model does not have: with the name that was probably meant."""
    *parents, name = map(str, path)
    similar = get_close_matches(name, _fields_at(parents, model), n=1)
    return f"no such field `{_shortened(name)}`" + (f"; did you mean `{similar[0]}`?" if similar else "")


def _fields_at(path: Sequence[str], model: type[BaseModel]) -> Collection[str]:
    """The fields of the object at a path of a model; none where there is no object."""
    for name in path:
        annotation = model.model_fields[name].annotation if name in model.model_fields else None
        parts = (part for part in (annotation, *get_args(annotation)) if isinstance(part, type))
        inner = next((part for part in parts if issubclass(part, BaseModel)), None)
        if inner is None:
            return ()
        model = inner
    return model.model_fields


def _shortened(value: object, limit: int = 80) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
