"""The changes of `hora set`: from FIELD=VALUE texts to what the service takes, and what is shown of them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from hora.cli.spec_files import yaml_value
from hora.errors import Json
from hora.render.text import plain
from jobs.model.job_changes import changes_from
from jobs.model.problems import FieldProblem, InvalidSpec

_LABELS = ("label.", "labels.")


def changes_of(texts: Sequence[str]) -> Json:
    """The changes that these texts ask for. Raises `InvalidSpec` with every wrong one."""
    changes: Json = {}
    misshapen = []
    for text in texts:
        field, equals, value = text.partition("=")
        field = field.strip()
        if not (field and equals):
            misshapen.append(FieldProblem(text, "is FIELD=VALUE, such as priority=80 or label.team=vision", text))
        elif field.startswith(_LABELS):
            changes.setdefault("labels", {})[field.partition(".")[2]] = value or None
        elif field in ("label", "labels"):
            misshapen.append(FieldProblem(field, "is set one label at a time: write label.KEY=VALUE", value))
        elif not value.strip():
            hint = "; time_limit_s=none removes the limit" if field == "time_limit_s" else ""
            misshapen.append(FieldProblem(field, f"needs a value{hint}", value))
        else:
            changes[field] = _value(field, value)
    if misshapen:
        raise InvalidSpec(misshapen)
    changes_from(changes)
    return changes


def _value(field: str, text: str) -> Any:
    if field == "name":
        return text
    return None if text == "none" else yaml_value(text, field)


def changed_text(job: Json, changes: Mapping[str, Any]) -> str:
    """What the job has now, of what was to change: `priority 80, label team=vision`."""
    labels = job["labels"]
    present = {"name": plain(job["name"]), "priority": job["priority"]}
    limit_s = job["spec"].get("time_limit_s")
    present["time_limit_s"] = "none" if limit_s is None else f"{limit_s:g}"
    parts = [f"{field} {present[field]}" for field in changes if field in present]
    of_labels = (
        f"label {plain(key)}={plain(labels[key])}" if key in labels else f"no label {plain(key)}"
        for key in changes.get("labels", {})
    )
    return ", ".join([*parts, *of_labels])
