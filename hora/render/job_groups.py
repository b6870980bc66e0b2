"""Groups of jobs as a table or CSV. From the API's JSON. Pure; used by `hora ls --group`."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table

from hora.errors import Json
from hora.render.job_columns import csv_line
from hora.render.tables import table_of
from hora.render.text import ago, heading, number, plain
from jobs.model.states import Status

_FIGURES = ("n", "mean", "min", "max")


def groups_table(groups: Iterable[Json], by: Sequence[str], now: datetime | None = None) -> Table:
    """A row for each group: its values, its jobs, and the figures of metrics if there are any."""
    groups = list(groups)
    names = [metric["name"] for group in groups[:1] for metric in _metrics(group)]
    figures = [figure for name in names for figure in (f"{name} mean", "min", "max")]
    heads = [*(f"{heading(field)}…" for field in by), "JOBS>", "STATUSES", "NEWEST"]
    table = table_of(*heads, *(heading(figure, figures=True) for figure in figures))
    for group in groups:
        table.add_row(
            *map(_text, group["values"]),
            plain(group["jobs"]),
            ", ".join(f"{jobs} {plain(status)}" for status, jobs in group["statuses"].items()),
            ago(group["newest_at"], now),
            *(number(metric.get(figure)) for metric in _metrics(group) for figure in ("mean", "min", "max")),
        )
    return table


def groups_csv(groups: Iterable[Json], by: Sequence[str], metrics: Sequence[str]) -> Iterator[str]:
    """The groups as CSV, line by line as they come, with exact values and a column for each status."""
    figures = [f"{name}.{figure}" for name in metrics for figure in _FIGURES]
    yield csv_line([*by, "jobs", *Status, "newest_at", *figures])
    for group in groups:
        yield csv_line(
            [
                *map(_exact, group["values"]),
                group["jobs"],
                *(group["statuses"].get(status, 0) for status in Status),
                group["newest_at"],
                *(metric.get(figure) for metric in _metrics(group) for figure in _FIGURES),
            ]
        )


def _metrics(group: Json) -> list[Json]:
    """The metrics of a group. A service of an earlier version has one at most."""
    one = [group["metric"]] if group.get("metric") else []
    metrics: list[Json] = group.get("metrics") or one
    return metrics


def _exact(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _text(value: Any) -> str:
    """A value on one line: of a long text, such as notes, the first one."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, _, rest = text.strip().partition("\n")
    return plain(first.rstrip()) + ("…" if rest else "")
