"""The parts of a spec that say how weights are updated: schedule, optimizer, class weights. Pure.

Used by `jobs.model.spec`. Each part is a choice by name, and each name has fields of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticKnownError

from jobs.model.spec_parts import MetricName, SpecPart

_Beta = Annotated[float, Field(ge=0, le=0.99999)]  # nearer to 1, float32 divides by 0


@dataclass(frozen=True)
class _Needed:
    """Instead of a default: the field must be given."""

    example: str


class NamedPart(SpecPart):
    """A choice by name. `of_name` lists the fields of each name with their defaults; other names have them null.

    A document has the plain name if all its fields have their defaults, else an object with the fields of that name.
    """

    of_name: ClassVar[Mapping[str, Mapping[str, Any]]]

    name: str

    @field_validator("*")
    @classmethod
    def _is_of_the_name(cls, value: Any, info: ValidationInfo) -> Any:
        field, name = str(info.field_name), info.data.get("name")
        if field == "name" or name is None:  # the name has a problem of its own
            return value
        own_fields = cls.of_name[name]
        if field not in own_fields:
            if value is not None:
                has = f"; it has {', '.join(own_fields)}" if own_fields else ""
                raise ValueError(f"{name} has no {field}{has}")
            return value
        if value is None and isinstance(own_fields[field], _Needed):
            raise ValueError(f"{name} needs {field}, such as {own_fields[field].example}")
        return own_fields[field] if value is None else value

    @model_serializer
    def _short(self) -> str | dict[str, Any]:
        own_fields = self.of_name[self.name]
        if all(getattr(self, field) == default for field, default in own_fields.items()):
            return self.name
        return {"name": self.name, **{field: getattr(self, field) for field in own_fields}}


def from_name(names: Sequence[str]) -> Callable[[Any], Any]:
    """A function that makes the document of a part from a plain name. Raises ValueError for what can be neither."""

    def part(value: Any) -> Any:
        if isinstance(value, str):
            if value not in names:
                expected = f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
                raise PydanticKnownError("literal_error", {"expected": expected})
            return {"name": value}
        if not isinstance(value, dict | SpecPart):
            raise ValueError("must be a name, or an object with a name")
        return value

    return part


OptimizerName = Literal["adam", "adamw", "lamb", "nadam", "sgd"]
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)
_MOMENTS = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}


class OptimizerSpec(NamedPart):
    """The rule by which gradients change weights."""

    of_name: ClassVar = {"sgd": {"momentum": 0.9, "nesterov": False}, **dict.fromkeys(OPTIMIZERS[:-1], _MOMENTS)}

    name: OptimizerName = Field(description="`adam`, `adamw`, `lamb`, `nadam` or `sgd`.")
    momentum: float | None = Field(
        None, ge=0, lt=1, description="Of `sgd`: the share of the last step that the next one keeps. `null` means 0.9."
    )
    nesterov: bool | None = Field(
        None, description="Of `sgd`: look ahead by the momentum (Nesterov). `null` means `false`."
    )
    beta_1: _Beta | None = Field(
        None, description="Of all but `sgd`: how slowly the mean of the gradients changes. `null` means 0.9."
    )
    beta_2: _Beta | None = Field(
        None, description="Of all but `sgd`: how slowly the mean of their squares changes. `null` means 0.999."
    )
    epsilon: float | None = Field(
        None,
        ge=1e-12,
        le=1,
        description="Of all but `sgd`: added to what the mean is divided by. `null` means 1e-7.",
    )

    @field_validator("nesterov")
    @classmethod
    def _has_momentum(cls, nesterov: bool | None, info: ValidationInfo) -> bool | None:
        if nesterov and info.data.get("momentum") == 0:
            raise ValueError("nesterov needs a momentum above 0")
        return nesterov


ScheduleName = Literal["constant", "cosine", "exponential", "plateau", "step"]
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)
_Epoch = Annotated[int, Field(ge=1, le=100_000)]


class ScheduleSpec(NamedPart):
    """How the rate falls after the warm-up."""

    of_name: ClassVar = {
        "constant": {},
        "cosine": {"final": 0.0},
        "exponential": {"factor": _Needed("0.95")},
        "plateau": {"monitor": None, "factor": 0.1, "patience": 2, "min_delta": 0.001, "least": 0.0},
        "step": {"epochs": _Needed("[80, 120]"), "factor": 0.1},
    }

    name: ScheduleName = Field(description="`constant`, `cosine`, `exponential`, `plateau` or `step`.")
    final: float | None = Field(
        None, ge=0, le=1, description="Of `cosine`: the share of the rate that is left at the end. `null` means 0."
    )
    epochs: list[_Epoch] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Of `step`: after which epochs the rate is multiplied by `factor`, in rising order: `[80, 120]`."
        " Epochs of the warm-up count too.",
    )
    factor: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="What the rate is multiplied by: at each of the epochs of `step`, on each plateau, or in each epoch"
        " of `exponential`, which needs it. `null` means 0.1.",
    )
    monitor: MetricName | None = Field(
        None,
        description="Of `plateau`: the metric to watch, as in `early_stopping`. `null`: the one that decides which"
        " epoch is the best.",
    )
    patience: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Of `plateau`: how many epochs without an improvement lower the rate. `null` means 2.",
    )
    min_delta: float | None = Field(
        None,
        ge=0,
        description="Of `plateau`: the smallest change that counts as an improvement. `null` means 0.001.",
    )
    least: float | None = Field(
        None, ge=0, le=1000, description="Of `plateau`: the rate that is never lowered any more. `null` means 0."
    )

    @field_validator("epochs")
    @classmethod
    def _rise(cls, epochs: list[int] | None) -> list[int] | None:
        if epochs is not None and epochs != sorted(set(epochs)):
            raise ValueError("must rise from one epoch to the next")
        return epochs


_LINE = r"^[^\x00-\x1f\x7f-\x9f]+$"
_ClassName = Annotated[str, StringConstraints(pattern=_LINE, max_length=1024)]
_Weight = Annotated[float, Field(gt=0, le=1e6)]
# Tags in brackets: `jobs.model.problems` leaves them out of the path of a field.
ClassWeights = Annotated[
    Annotated[Literal["balanced"], Tag("[text]")]
    | Annotated[dict[_ClassName, _Weight], Field(min_length=1, max_length=10_000), Tag("[object]")],
    Discriminator(lambda value: "[text]" if isinstance(value, str) else "[object]"),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "balanced", "type": "string"},
                {
                    "type": "object",
                    "propertyNames": {"pattern": _LINE, "maxLength": 1024},
                    "minProperties": 1,
                    "maxProperties": 10_000,
                    "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
                },
            ]
        }
    ),
]

_NAMED = 10  # classes in a message


def unknown_class(weights: object, classes: Sequence[str]) -> tuple[str, str] | None:
    """The first class in `class_weights` that a dataset does not have, and what to say about it."""
    unknown = sorted(set(weights).difference(classes)) if isinstance(weights, dict) else []
    if not unknown:
        return None
    named = ", ".join(classes[:_NAMED]) + (", ..." if len(classes) > _NAMED else "")
    return unknown[0], f"there is no such class; the data has: {named}"
