"""What the command line shows of a job's metrics, under any names. From the API's JSON. Pure; used by `hora.render`."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from hora.errors import Json
from hora.render.text import number, plain
from jobs.model.csv_cells import csv_cell
from jobs.model.goals import TIMES, goal_metric

ACCURACY = "val_accuracy"
_MOST_ROWS = 20  # of a job's metrics: a script may report a thousand
_MOST_OF_EPOCH = 8
_NO_METRICS = TIMES | {"epoch", "step"}  # in the event of an epoch
_USUAL = frozenset({"loss", "accuracy", "val_loss", ACCURACY})  # of Hora's own loop: other rows show them


def metric(value: float | None) -> str:
    """A value of a metric: with four digits after the point, or with four significant ones where these say more."""
    is_usual = value is None or value == 0 or 0.01 <= abs(value) < 1e5
    return number(value) if is_usual else f"{value:.4g}"


def goal_of(job: Json) -> str | None:
    """The metric that says how good a job is; None before it has one."""
    goal = (job.get("spec") or {}).get("goal") or {}
    return goal.get("metric") or goal_metric(None, job.get("metrics") or {})


def best_of(job: Json, name: str) -> float | None:
    """The best value of a metric of a job so far."""
    best: float | None = ((job.get("metrics") or {}).get(name) or {}).get("best")
    return best


def goal_value(job: Json, *, with_name: bool) -> str:
    """The value of the goal: 0.9312, or val_mae 0.3120. The accuracy is that of the kept weights, or of now."""
    name = goal_of(job) or ACCURACY
    value = best_of(job, name)
    if name == ACCURACY:
        now = ((job.get("progress") or {}).get("metrics") or {}).get(name)
        kept_or_now = (job.get("summary") or {}).get(name, now)
        value = value if kept_or_now is None else kept_or_now
    return f"{plain(name)} {metric(value)}" if with_name and value is not None else metric(value)


def metric_rows(job: Json) -> dict[str, object]:
    """A row for each metric that no other row shows, and for the goal, which comes first: best and last value."""
    metrics, goal = job.get("metrics") or {}, goal_of(job)
    named = (job.get("spec") or {}).get("goal") or {}
    own = metrics.keys() - (set() if job.get("code") else _USUAL - {named.get("metric")})
    names = sorted(own, key=lambda name: (name != goal, name))
    rows: dict[str, object] = {plain(name): _summary(metrics[name], name == goal) for name in names[:_MOST_ROWS]}
    return rows | ({"more metrics": len(names) - _MOST_ROWS} if len(names) > _MOST_ROWS else {})


def _summary(values: Mapping[str, Any], is_goal: bool) -> str:
    """0.3120 in epoch 3 (goal), last 0.3312."""
    epoch = "" if values.get("best_epoch") is None else f" in epoch {values['best_epoch']}"
    last = "" if values["last"] == values["best"] else f", last {metric(values['last'])}"
    return f"{metric(values['best'])}{epoch}{' (goal)' if is_goal else ''}{last}"


def names_of_epoch(data: Mapping[str, Any], *, goal: str | None = None) -> list[str]:
    """The metrics of a line about an epoch: of training before validation, losses first. The goal is among them."""
    own = [name for name, value in data.items() if name not in _NO_METRICS and isinstance(value, int | float | None)]
    own.sort(key=lambda name: (name.startswith("val_"), not name.endswith("loss")))
    return own[:_MOST_OF_EPOCH] + [name for name in own[_MOST_OF_EPOCH:] if name == goal]


def present_goal(metrics: Collection[str], goal: str | None) -> str | None:
    """The metric that a line about the present shows: the goal if it is reported, else the usual one."""
    return goal if goal in metrics else goal_metric(None, metrics)


def comma_separated(series: Iterable[Json]) -> str:
    """Series as CSV (RFC 4180), a line for each value. One that is no number is empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["metric", "rank", "step", "value"])
    for one in series:
        for x, y in zip(one["x"], one["y"], strict=True):
            writer.writerow([csv_cell(one["name"]), one["rank"], f"{x:.0f}", y])
    return out.getvalue()
