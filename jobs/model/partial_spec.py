"""What can be checked of a document although it is no spec: the fields that are right. Pure; called by the api.

So one answer names every wrong field, and not first those that the spec itself refuses, then the others.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import Spec, spec_from

_STAND_IN = {"source": "unknown"}  # for a dataset that is missing or wrong; the problems with it are left out
_ROOM = frozenset({"gpus", "min_gpus", "gpu_model", "gpu_memory_gb", "mixed_gpus", "device", "placement", "pool"})
# A field whose problem is worth telling, and the fields that must be right for it.
_RESTS_ON: dict[str, frozenset[str]] = {
    "dataset.source": frozenset({"code"}),
    "dataset.validation": frozenset({"code"}),
    "model": frozenset({"model", "code"}),
    "environment": frozenset({"environment", "code"}),
    "requirements": frozenset({"requirements", "code"}),
    "code": frozenset({"code"}),
    "after": frozenset({"after"}),
    "project": frozenset({"project"}),
    "priority": frozenset({"priority", "project"}),
    **dict.fromkeys(_ROOM, _ROOM | {"strategy", "project"}),
}


def rest_of(document: Mapping[str, Any], wrong_fields: Collection[str]) -> Spec | None:
    """The spec without its wrong fields. None if what is left is no spec either."""
    tops = {field.partition(".")[0] for field in wrong_fields}
    for fields in (wrong_fields, tops):
        try:
            return spec_from(_without(document, fields))
        except InvalidSpec as error:
            tops |= {problem.field.partition(".")[0] for problem in error.problems}
    try:
        return spec_from(_without(document, tops))
    except InvalidSpec:
        return None


def told_of_rest(problems: Sequence[FieldProblem], wrong_fields: Collection[str]) -> list[FieldProblem]:
    """The problems of `rest_of` that do not come from what it left out."""
    tops = {field.partition(".")[0] for field in wrong_fields}
    return [
        problem
        for problem in problems
        if not _is_within(problem.field, wrong_fields) and tops.isdisjoint(_needed_by(problem.field) or tops)
    ]


def _needed_by(field: str) -> frozenset[str] | None:
    return _RESTS_ON.get(field) or _RESTS_ON.get(field.partition(".")[0])


def _is_within(field: str, others: Collection[str]) -> bool:
    return any(f"{field}.".startswith(f"{other}.") for other in others)


def _without(document: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    left: dict[str, Any] = json.loads(json.dumps(document))
    for field in fields:
        holder, (*outer, last) = left, field.split(".")
        for name in outer:
            if not isinstance(holder.get(name), dict):  # a list, or a text that stands for an object
                last = name
                break
            holder = holder[name]
        holder.pop(last, None)
    return left if left.get("code") is not None else {"dataset": _STAND_IN, **left}
