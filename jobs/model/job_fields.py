"""The fields of a job by which lists of jobs are filtered, sorted and grouped: their names and kinds. Pure.

They have the names of the columns (`jobs.views.job_columns`) and the same values. `jobs.model.where` reads conditions
about them, and `jobs.lifecycle.field_values` makes SQL of them.

    UnknownField    no field has this name; the text says what was probably meant
"""

import re
from enum import StrEnum

from jobs.model.goals import METRIC_NAME
from jobs.model.problems import fields_at
from jobs.model.spec import Spec
from jobs.suggestions import meant


class Kind(StrEnum):
    """How the values of a field compare."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    FLAG = "true or false"
    JSON = "any JSON"  # numbers as numbers, everything else as text


FIELDS = {
    "status": Kind.TEXT, "name": Kind.TEXT, "owner": Kind.TEXT, "project": Kind.TEXT, "dataset": Kind.TEXT,
    "model": Kind.TEXT, "study": Kind.TEXT, "cell": Kind.NUMBER, "gpus": Kind.NUMBER, "batch": Kind.NUMBER,
    "rate": Kind.NUMBER, "throughput": Kind.NUMBER, "duration": Kind.NUMBER, "priority": Kind.NUMBER,
    "created": Kind.TIME, "started": Kind.TIME, "ended": Kind.TIME, "stored": Kind.NUMBER, "starred": Kind.FLAG,
    "archived": Kind.FLAG, "notes": Kind.TEXT, "paused": Kind.FLAG, "host": Kind.TEXT, "gpu_hours": Kind.NUMBER,
    "end_reason": Kind.TEXT, "error": Kind.TEXT, "restarts": Kind.NUMBER, "alerts": Kind.NUMBER,
}  # fmt: skip
FAMILIES = {
    "spec": Kind.JSON, "metrics": Kind.NUMBER, "last": Kind.NUMBER, "low": Kind.NUMBER, "high": Kind.NUMBER,
    "mean": Kind.NUMBER, "test": Kind.NUMBER, "label": Kind.JSON,
}  # fmt: skip
_OF_METRICS = ("metrics", "last", "low", "high", "mean", "test")
# Names of a field of the spec. Each dot of `params` may part two names, or belong to one: each doubles the SQL.
MOST_IN_PATH = 6
_MOST_CHARACTERS = 300
_ANY_NAMES = frozenset({"params", "labels", "env"})  # fields of the spec that people fill with names of their own


class UnknownField(ValueError):
    """No field has this name."""


def family_of(name: str) -> tuple[str, str]:
    """The family of a field and its name in there: `spec.batch_size` gives `spec` and `batch_size`."""
    family, _, rest = name.partition(".")
    return family, rest


def kind_of(name: str) -> Kind:
    """How the values of this field compare. Raises `UnknownField`."""
    if name in FIELDS:
        return FIELDS[name]
    family, rest = family_of(name)
    if len(name) > _MOST_CHARACTERS:
        raise UnknownField(f"the name of a field may have {_MOST_CHARACTERS} characters")
    if family not in FAMILIES or not rest:
        allowed = ", ".join([*FIELDS, *(f"{each}.NAME" for each in FAMILIES)])
        raise UnknownField(f"no such field `{name}`{_proposal(name) or f'; allowed: {allowed}'}")
    if family in _OF_METRICS and not re.match(METRIC_NAME, rest):
        raise UnknownField(f"`{rest}` is no metric: a name has letters, digits and _.:/@- only, 64 at most")
    if family == "spec":
        _require_in_spec(name, rest.split("."))
    return FAMILIES[family]


def _proposal(name: str) -> str:
    family, _, rest = name.partition(".")
    if rest:
        right = meant(family, FAMILIES, "`")
        return right.replace("`?", f".{rest}`?")
    if name in Spec.model_fields:
        return f"; did you mean `spec.{name}`?"
    return meant(name, FIELDS, "`") or meant(name, Spec.model_fields, "`").replace("`", "`spec.", 1)


def _require_in_spec(name: str, path: list[str]) -> None:
    """Refuse a name that no spec has. What `params` and other open objects hold is up to people."""
    if len(path) > MOST_IN_PATH:
        raise UnknownField(f"`{name}` has too many dots: a field of the spec may have {MOST_IN_PATH} names")
    for place, part in enumerate(path):
        known = fields_at(path[:place], Spec)
        if not known or part in known:
            if part in _ANY_NAMES or not known:
                return
            continue
        above = ".".join(["spec", *path[:place]])
        raise UnknownField(f"`{above}` has no field `{part}`" + meant(part, known, "`").replace("`", f"`{above}.", 1))
