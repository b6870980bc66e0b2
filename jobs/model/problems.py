"""The problems of a document that people send (a spec, a study, a request), field by field.

Used by `spec`, by the api for every request, and by the command line. Pure.

    InvalidSpec      a document that is not a spec; `problems` names every wrong field
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from jobs import wording
from jobs.model.goals import METRIC_NAME
from jobs.model.pools import POOL
from jobs.suggestions import MOST_PROPOSALS, meant
from jobs.wording import ANY_KIND, NAMES, shortened

__all__ = [
    "BRANCH", "NAMES", "FieldProblem", "InvalidSpec", "field_problems", "fields_at", "in_words", "models_in",
    "unknown_field", "wrong_inner_field",
]  # fmt: skip

BRANCH = "branch:"  # and the name of a class: the tag of a branch of a union, which pydantic puts into a path too

_WORDS_BY_PATTERN = {
    POOL: "must be the name of a pool, slurm: and the name of a partition, such as slurm:main",
    METRIC_NAME: "must be the name of a metric: letters, digits and _.:/@- only, and not begin with a digit",
}


@dataclass(frozen=True)
class FieldProblem:
    """One wrong field: its dotted path, the value received (shortened), and what is allowed."""

    field: str
    message: str
    received: str | None = None


class InvalidSpec(ValueError):
    """The text is not a spec; `problems` lists every wrong field."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in problems))


def field_problems(error: ValidationError, model: type[BaseModel]) -> list[FieldProblem]:
    """Every wrong field of a pydantic error of this model, in the sequence of the fields."""
    return [
        FieldProblem(
            field=".".join(str(part) for part in _path_of(detail) if _is_field(part)),
            message=_message(detail, model, is_compared=place < MOST_PROPOSALS),
            received=_received(detail),
        )
        for place, detail in enumerate(error.errors(include_url=False))
    ]


def _message(detail: ErrorDetails, model: type[BaseModel], *, is_compared: bool) -> str:
    """What is wrong. It proposes what was probably meant only if it `is_compared`: that takes long."""
    if detail["type"] == "extra_forbidden":
        return unknown_field(detail["loc"], model if is_compared else None)
    return in_words(detail, with_proposal=is_compared)


def in_words(detail: ErrorDetails, *, with_proposal: bool = True) -> str:
    """What is allowed in place of a wrong value, as a person says it."""
    return wording.in_words(detail, _WORDS_BY_PATTERN, with_proposal=with_proposal)


def wrong_inner_field(name: str, received: object, message: str) -> PydanticCustomError:
    """The error to raise in a validator of an object if it is a field inside that object that is wrong."""
    return PydanticCustomError(_INNER_FIELD, "{text}", {"text": message, "name": name, "received": received})


_INNER_FIELD = "inner_field"


def _is_field(part: str | int) -> bool:
    return part not in ANY_KIND and not str(part).startswith(BRANCH)


def _path_of(detail: ErrorDetails) -> Sequence[str | int]:
    return (*detail["loc"], detail["ctx"]["name"]) if detail["type"] == _INNER_FIELD else detail["loc"]


def _received(detail: ErrorDetails) -> str | None:
    if detail["type"] == "missing":
        return None
    received = detail["ctx"]["received"] if detail["type"] == _INNER_FIELD else detail["input"]
    return shortened(received.decode(errors="replace") if isinstance(received, bytes) else received)  # a whole body


def unknown_field(path: Sequence[str | int], model: type[BaseModel] | None) -> str:
    """The message for a field that there is not. It suggests the one of the model that was probably meant."""
    *parents, name = map(str, path)
    fields = {} if model is None else fields_at(parents, model)
    return f"no such field `{shortened(name)}`" + meant(name, fields, "`")


def fields_at(path: Sequence[str], model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of the object at a path of a model; empty if there is no object, or one of several kinds."""
    models = [model]
    for name in path:
        if name.startswith(BRANCH):
            models = [each for each in models if name == f"{BRANCH}{each.__name__}"]
        elif not name.isdecimal():  # a place in a list
            field = models[0].model_fields.get(name) if len(models) == 1 else None
            models = list(models_in(field.annotation)) if field is not None else []
    return models[0].model_fields if len(models) == 1 else {}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type: itself, or those of its union or list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)
