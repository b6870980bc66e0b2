"""The problems of a document that people send (a spec, a study, a request), field by field.

Used by `spec`, by the api for every request, and by the command line. Pure.

    InvalidSpec      a document that is not a spec; `problems` names every wrong field
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

# Pydantic puts the branch of a union into the path, which is not a field of the spec.
_UNION_TAGS = {"constrained-float", "constrained-str"}


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
            field=".".join(str(part) for part in _path_of(detail) if part not in _UNION_TAGS),
            message=_unknown_field(detail["loc"], model)
            if detail["type"] == "extra_forbidden"
            else detail["msg"].removeprefix("Value error, "),
            received=_received(detail),
        )
        for detail in error.errors(include_url=False)
    ]


def wrong_inner_field(name: str, received: object, message: str) -> PydanticCustomError:
    """The error to raise in a validator of an object if it is a field inside that object that is wrong."""
    return PydanticCustomError(_INNER_FIELD, "{text}", {"text": message, "name": name, "received": received})


_INNER_FIELD = "inner_field"


def _path_of(detail: ErrorDetails) -> Sequence[str | int]:
    return (*detail["loc"], detail["ctx"]["name"]) if detail["type"] == _INNER_FIELD else detail["loc"]


def _received(detail: ErrorDetails) -> str | None:
    if detail["type"] == "missing":
        return None
    return _shortened(detail["ctx"]["received"] if detail["type"] == _INNER_FIELD else detail["input"])


def _unknown_field(path: Sequence[str | int], model: type[BaseModel]) -> str:
    """The message for a field that the model does not have. It suggests the name that was probably meant."""
    *parents, name = map(str, path)
    similar = get_close_matches(name, fields_at(parents, model), n=1)
    return f"no such field `{_shortened(name)}`" + (f"; did you mean `{similar[0]}`?" if similar else "")


def fields_at(path: Sequence[str], model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of the object at a path of a model; empty if there is no object."""
    for name in path:
        annotation = model.model_fields[name].annotation if name in model.model_fields else None
        parts = (part for part in (annotation, *get_args(annotation)) if isinstance(part, type))
        inner = next((part for part in parts if issubclass(part, BaseModel)), None)
        if inner is None:
            return {}
        model = inner
    return model.model_fields


def _shortened(value: object, limit: int = 80) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
