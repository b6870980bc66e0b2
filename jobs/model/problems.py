"""The problems of a document that people send (a spec, a study, a request), field by field.

Used by `spec`, by the api for every request, and by the command line. Pure.

    InvalidSpec      a document that is not a spec; `problems` names every wrong field
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from jobs.model.goals import METRIC_NAME
from jobs.model.pools import POOL

# No fields of the spec, although pydantic puts them into a path: the branch of a union, and the mark of a key.
_NO_FIELDS = {"constrained-float", "constrained-str", "[key]", "[text]", "[object]"}
BRANCH = "branch:"  # and the name of a class: the tag of a branch of a union, which pydantic puts into a path too

_WORDS_BY_TYPE = {
    "string_type": "must be a text",
    "dict_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "model_attributes_type": "must be an object with fields",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
# What a text may be, by the pattern that it has to match.
_WORDS_BY_PATTERN = {
    r"^[0-9a-f]{64}$": "must be a digest: 64 characters, each 0-9 or a-f",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must have letters, digits and _ only, and not begin with a digit",
    r"^[a-z0-9][a-z0-9-]*$": "must have small letters, digits and - only, and not begin with -",
    r"^[a-z0-9][a-z0-9._-]*$": "must have small letters, digits and ._- only, and begin with a letter or digit",
    r"^[A-Za-z0-9][A-Za-z0-9._/-]*$": "must have letters, digits and ._/- only, and begin with a letter or digit",
    r"^[A-Za-z0-9]([A-Za-z0-9 ._/()+-]*[A-Za-z0-9)+])?$": "must be a part of the name of a GPU, such as A100-SXM4-80GB",
    r"^[^\x00-\x1f\x7f-\x9f]+$": "must be one line of text, and not be empty",
    r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$": "must be the name of a network, or package.module:function",
    r"^[0-9a-z]{1,32}$": "must be an id: small letters and digits, such as 3k9v0t2m7x1q",
    POOL: "must be the name of a pool, slurm: and the name of a partition, such as slurm:main",
    METRIC_NAME: "must be the name of a metric: letters, digits and _.:/@- only, and not begin with a digit",
}
NAMES = "names"  # in the context of an error: what the value, or its field `name`, may be
_QUOTED = re.compile("'([^']*)'")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST_PROPOSED = 60  # characters of a text that is proposed as a list


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
            message=_unknown_field(detail["loc"], model) if detail["type"] == "extra_forbidden" else in_words(detail),
            received=_received(detail),
        )
        for detail in error.errors(include_url=False)
    ]


def in_words(detail: ErrorDetails) -> str:
    """What is allowed in place of a wrong value, as a person says it."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch" and context["pattern"] in _WORDS_BY_PATTERN:
        return _WORDS_BY_PATTERN[context["pattern"]]
    if kind == "literal_error":
        return f"must be {context['expected']}{_meant(value, _QUOTED.findall(context['expected']))}"
    if kind not in _WORDS_BY_TYPE:
        message = detail["msg"].removeprefix("Value error, ").replace(" after validation", "")
        return message + _meant(value, context.get(NAMES, ()))
    is_one_of_several = not _NO_FIELDS.isdisjoint(detail["loc"])  # another branch may take the value
    return _WORDS_BY_TYPE[kind] + ("" if is_one_of_several else _hint(kind, value))


def _hint(kind: str, value: Any) -> str:
    """How to write a value that has the wrong type but was probably meant."""
    is_text = isinstance(value, str)
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f': write it in quotes, "{_shortened(value)}"'
    if kind.startswith(("int_", "float_")) and is_text and _NUMBER.fullmatch(value):
        return ", without quotes"
    if kind == "list_type" and is_text and value.split() and len(value) <= _MOST_PROPOSED:
        return f", such as {json.dumps(value.split(), ensure_ascii=False)}"
    return ""


def _meant(value: Any, names: Sequence[str]) -> str:
    """The name that was probably meant in place of a wrong one."""
    given = value.get("name") if isinstance(value, dict) else value
    similar = get_close_matches(given, names, n=1) if isinstance(given, str) and given not in names else ()
    return f"; did you mean '{similar[0]}'?" if similar else ""


def wrong_inner_field(name: str, received: object, message: str) -> PydanticCustomError:
    """The error to raise in a validator of an object if it is a field inside that object that is wrong."""
    return PydanticCustomError(_INNER_FIELD, "{text}", {"text": message, "name": name, "received": received})


_INNER_FIELD = "inner_field"


def _is_field(part: str | int) -> bool:
    return part not in _NO_FIELDS and not str(part).startswith(BRANCH)


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
    """The fields of the object at a path of a model; empty if there is no object, or one of several kinds."""
    models = [model]
    for name in path:
        if name.startswith(BRANCH):
            models = [each for each in models if name == f"{BRANCH}{each.__name__}"]
        elif not name.isdecimal():  # a place in a list
            field = models[0].model_fields.get(name) if len(models) == 1 else None
            models = list(_models_in(field.annotation)) if field is not None else []
    return models[0].model_fields if len(models) == 1 else {}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type: itself, or those of its union or list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _shortened(value: object, limit: int = 80) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else text[: limit - 1] + "…"
