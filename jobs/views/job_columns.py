"""Columns of jobs, by their names, and their exact values in the API's JSON of a job. Pure.

Used by `hora ls` and by tables of articles. The dashboard has the same columns and the same values:
`columns.cases.json` beside its `csv.ts` tests both.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jobs.model.goals import goal_metric

Json = dict[str, Any]
Value = str | int | float | bool | None
Read = Callable[[Json], Value]
Column = tuple[str, Read]  # its title, as the API names the field, and its value

USUAL = ("status", "name", "progress", "best", "gpus", "batch", "rate", "throughput", "duration", "owner", "created")

_SHORT = ("name", "source")  # what a text stands for: `model: lenet5`
_ACCURACY = "val_accuracy"  # what Hora's own loop reports sooner or later
_RESULTS = ("val_accuracy", "val_loss", "test_accuracy", "test_loss")  # of a summary, which are metrics too


def _field(*path: str) -> Read:
    def read(job: Json) -> Value:
        value: Any = job
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return _plain(value)

    return read


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _metric(job: Json, name: str, which: str) -> Value:
    summary = job.get("summary") or {}
    of_summary = summary.get(name) if name in _RESULTS else None
    values = (job.get("metrics") or {}).get(name) or {"best": of_summary, "last": of_summary}
    return _plain(values.get(which))


def _figure(name: str, which: str) -> Read:
    return lambda job: _metric(job, name, which)


def _goal(job: Json) -> str | None:
    goal = (job.get("spec") or {}).get("goal") or {}
    name: str | None = goal.get("metric") or goal_metric(None, job.get("metrics") or {})
    return name or (None if job.get("code") else _ACCURACY)


def _of_goal(which: str) -> Read:
    return lambda job: None if (name := _goal(job)) is None else _metric(job, name, which)


def _progress(job: Json) -> Value:
    """The share of its work that is done, 0..1."""
    progress = job.get("progress") or {}
    if progress.get("done") is not None:
        return progress["done"] / progress["total"] if progress.get("total") else None
    for part, whole in (("step", "steps"), ("epoch", "epochs")):
        if progress.get(whole):
            share: float = progress[part] / progress[whole]
            return share
    return None


def _samples_per_s(job: Json) -> Value:
    whole = (job.get("summary") or {}).get("train_samples_per_s")
    return _plain((job.get("progress") or {}).get("samples_per_s") if whole is None else whole)


def _duration_s(job: Json) -> Value:
    if job.get("started_at") is None:
        return None
    end = datetime.fromisoformat(job["ended_at"]) if job.get("ended_at") else datetime.now(UTC)
    return (end - datetime.fromisoformat(job["started_at"])).total_seconds()


def _stored_bytes(job: Json) -> Value:
    parts = [job.get("checkpoint_bytes"), job.get("artifact_bytes")]
    return None if parts == [None, None] else sum(part or 0 for part in parts)


def _words(part: str, field: str) -> Read:
    return lambda job: ", ".join((job.get(part) or {}).get(field) or []) or None


_NAMED: dict[str, list[Column]] = {
    "status": [("status", _field("status"))],
    "name": [("name", _field("name"))],
    "progress": [("progress", _progress)],
    "curve": [],  # a picture
    "best": [("metric", _goal), ("best", _of_goal("best")), ("last", _of_goal("last"))],
    "gpus": [("gpus", _field("gpus"))],
    "batch": [("global_batch", _field("plan", "global_batch"))],
    "rate": [("learning_rate", _field("plan", "learning_rate"))],
    "throughput": [("samples_per_s", _samples_per_s)],
    "duration": [("duration_s", _duration_s)],
    "owner": [("owner", _field("owner"))],
    "created": [("created_at", _field("created_at"))],
    "project": [("project", _field("project"))],
    "dataset": [("dataset", lambda job: _in_spec(job.get("spec"), "dataset.source"))],
    "model": [("model", lambda job: _in_spec(job.get("spec"), "model.name"))],
    "priority": [("priority", _field("priority"))],
    "started": [("started_at", _field("started_at"))],
    "ended": [("ended_at", _field("ended_at"))],
    "study": [("study", _field("study"))],
    "cell": [("study_cell", _field("study_cell"))],
    "stored": [("stored_bytes", _stored_bytes)],
    "starred": [("starred", _field("starred"))],
    "archived": [("archived", _field("archived"))],
    "notes": [("notes", _field("notes_line"))],
    "host": [("host", _words("usage", "hosts"))],
    "devices": [("devices", _words("usage", "devices"))],
    "gpu_hours": [("gpu_hours", _field("usage", "gpu_hours"))],
    "cost": [("cost", _field("usage", "cost"))],
    "end_reason": [("end_reason", _field("end_reason"))],
    "error": [("error", _field("error"))],
    "restarts": [("restarts", _field("restarts"))],
    "alerts": [("alerts", _field("alerts"))],
}


class UnknownColumn(ValueError):
    """No column has this name; the text says which there are."""


def is_column(name: str) -> bool:
    """Whether there is a column of this name."""
    try:
        columns_of([name])
    except UnknownColumn:
        return False
    return True


def columns_of(names: Iterable[str]) -> list[Column]:
    """The columns of these names, after the id. Raises `UnknownColumn`."""
    return [("id", _field("id")), *(column for name in names for column in _columns(name))]


def _columns(name: str) -> list[Column]:
    if name in _NAMED:
        return _NAMED[name]
    kind, _, rest = name.partition(".")
    readers: dict[str, Read] = {
        "metrics": lambda job: _metric(job, rest, "best"),
        **{which: _figure(rest, which) for which in ("last", "low", "high", "mean")},
        "test": _field("summary", f"test_{rest}"),
        "label": _field("labels", rest),
        "spec": lambda job: _in_spec(job.get("spec"), rest),
    }
    if kind not in readers or not rest:
        known = ", ".join([*_NAMED, *(f"{kind}.NAME" for kind in readers)])
        raise UnknownColumn(f"no such column {name!r}; there are {known}")
    return [(name, readers[kind])]


def _in_spec(value: Any, path: str) -> Value:
    """A field by its path. Names of `params` may have dots: the longest name that fits counts."""
    if isinstance(value, str) and path in _SHORT:
        return value
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return _plain(value[path])
    names = path.split(".")
    for length in range(len(names) - 1, 0, -1):
        name = ".".join(names[:length])
        if name in value:
            return _in_spec(value[name], ".".join(names[length:]))
    return None
