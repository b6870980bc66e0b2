"""The changes of `hora set`: from FIELD=VALUE texts to what the service takes, and what is shown of them.

Pure, except for reading the file of `hora note`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hora.cli.spec_files import yaml_value
from hora.errors import Json
from hora.render.text import plain
from jobs.model.job_changes import MOST_IN_NOTES, changes_from
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
        elif field == "notes":
            changes[field] = value or None
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
    if field in ("name", "project"):
        return text
    return None if text == "none" else yaml_value(text, field)


def read_notes(name: str) -> str:
    """The notes in a file; "-" is standard input. Raises `InvalidSpec`."""
    try:
        if name == "-":
            text = sys.stdin.read(MOST_IN_NOTES + 2)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(MOST_IN_NOTES + 2)
    except OSError as error:
        raise InvalidSpec([FieldProblem(name, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidSpec([FieldProblem(name, "is not text in UTF-8")]) from None
    text = text.removesuffix("\n")
    if len(text) > MOST_IN_NOTES:
        raise InvalidSpec([FieldProblem(name, f"has more than {MOST_IN_NOTES:,} characters")])
    return text


def notes_size(job: Json) -> str:
    """How long the notes of a job are: of 1,204 characters."""
    length = len(job.get("notes") or "")
    return f"of {length:,} character{'s' * (length != 1)}" if length else "none"


def changed_text(job: Json, changes: Mapping[str, Any]) -> str:
    """What the job has now, of what was to change: `priority 80, label team=vision`."""
    labels = job["labels"]
    present = {"name": plain(job["name"]), "priority": job["priority"]}
    limit_s = job["spec"].get("time_limit_s")
    present["time_limit_s"] = "none" if limit_s is None else f"{limit_s:g}"
    present["notes"] = notes_size(job)
    present["starred"] = "yes" if job.get("starred") else "no"
    present["archived"] = "yes" if job.get("archived") else "no"
    present["project"] = plain(job["project"])
    parts = [f"{field} {present[field]}" for field in changes if field in present]
    of_labels = (
        f"label {plain(key)}={plain(labels[key])}" if key in labels else f"no label {plain(key)}"
        for key in changes.get("labels", {})
    )
    return ", ".join([*parts, *of_labels])
