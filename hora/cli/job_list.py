"""What `hora ls` prints: a table, CSV or JSON. Used by `hora.cli.jobs`."""

import re
import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import typer

from hora.cli.output import print_list, say
from hora.render.job_columns import columns_table, csv_lines
from hora.render.job_groups import groups_csv, groups_table
from hora.render.jobs import jobs_table
from jobs.suggestions import meant
from jobs.views.job_columns import USUAL, UnknownColumn, columns_of, is_column

if TYPE_CHECKING:
    from rich.table import Table

    from hora.errors import Json
    from hora.service import Service

_ID = re.compile("[0-9a-z]{12}")
_MOST_NAMED = 10
_ROWS = 50
_PAGE, _LONG_PAGE = 100, 500


class JobList:
    """The jobs that match the filters, with the chosen columns."""

    def __init__(
        self, client: "Service", filters: "Json", *, columns: Sequence[str], metrics: Sequence[str], limit: int | None
    ) -> None:
        self._client = client
        self._filters = filters
        self._names = [*columns, *(f"metrics.{name}" for name in metrics)]
        self._has_columns = bool(columns)
        self._metrics = metrics
        self._limit = limit
        try:
            columns_of(self._names)
        except UnknownColumn as error:
            raise typer.BadParameter(str(error), param_hint="--column") from None

    def print(self, as_json: bool) -> None:
        """Print a table or JSON."""
        jobs = self._jobs()
        nothing = "" if jobs else self._nothing_found()
        print_list(jobs, self._table, nothing=nothing, as_json=as_json)
        if jobs:
            _say_unknown_metrics(jobs, self._metrics)

    def watch(self, as_json: bool) -> None:
        """Show the table, again and again."""
        from hora.cli.watch import watch_table

        watch_table(lambda: self._table(self._jobs()), as_json)

    def print_csv(self) -> None:
        """Print all jobs as CSV, page by page as they come."""
        names = self._names if self._has_columns else [*USUAL, *self._names]
        page_size = min(self._limit or _LONG_PAGE, _LONG_PAGE)
        jobs = islice(self._client.jobs(**self._filters, page_size=page_size), self._limit)
        for line in csv_lines(jobs, columns_of(names)):
            sys.stdout.write(line)

    def _jobs(self) -> "list[Json]":
        limit = self._limit or _ROWS
        return list(islice(self._client.jobs(**self._filters, page_size=min(limit, _PAGE)), limit))

    def _nothing_found(self) -> str:
        """What to say of an empty list."""
        usual = {"sort": self._filters.get("sort"), "archived": False}
        given = {name: value for name, value in self._filters.items() if value is not None and usual.get(name) != value}
        if not given:
            return "No jobs. Submit one: `hora submit --dataset digits`."
        project = given.get("project")
        similar = "" if project is None else meant(project, [each["name"] for each in self._client.projects()])
        where = given.pop("where", [])
        matches = [f"{name} {value}" for name, value in given.items()] + list(where)
        return f"No job matches: {', '.join(matches)}{similar or '.'}"

    def _table(self, jobs: "Sequence[Json]") -> "Table":
        if self._has_columns:
            return columns_table(jobs, columns_of(self._names))
        return jobs_table(jobs, metrics=self._metrics)


def print_groups(
    client: "Service",
    by: Sequence[str],
    filters: "Json",
    *,
    metrics: Sequence[str],
    limit: int | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Print the jobs that match in groups, as a table, CSV or JSON."""
    matching = {name: value for name, value in filters.items() if name != "sort"}
    limit = limit or (None if as_csv else _ROWS)
    groups = client.job_groups(by, metric=list(metrics), **matching, page_size=min(limit or _PAGE, _PAGE))
    chosen = islice(groups, limit)
    if as_csv:
        for line in groups_csv(chosen, by, metrics):
            sys.stdout.write(line)
    else:
        print_list(list(chosen), lambda rows: groups_table(rows, by), nothing="No job matches.", as_json=as_json)


def with_view(client: "Service", name: str, filters: "Json", columns: list[str]) -> "tuple[Json, list[str]]":
    """The filters and columns of a saved view, by its name or id. Those that are given come before its own."""
    content = _view(client, name)["content"]
    of_view = {field: value for field, value in content["filter"].items() if value not in (None, [])}
    if "status" in of_view:
        of_view["status"] = ",".join(of_view["status"])
    of_view["sort"] = content["sort"]
    given = {field: value for field, value in filters.items() if value is not None}
    shown = [
        column for column in content["columns"] if is_column(column)
    ]  # others are of a newer version, or no columns
    if of_view.get("where"):  # both hold
        given["where"] = [*of_view["where"], *given.get("where", [])]
    return {**of_view, **given}, columns or shown


def _view(client: "Service", name: str) -> "Json":
    views = list(client.views())
    matches = [view for view in views if name in (view["id"], view["name"])]
    own = [view for view in matches if view["project"] is None]
    if len(own or matches) == 1:
        return (own or matches)[0]
    if matches:
        named = ", ".join(f"{view['project']}: {view['id']}" for view in matches)
        raise typer.BadParameter(f"several projects have a view {name!r}: give its id ({named})", param_hint="--view")
    if _ID.fullmatch(name):  # of somebody else
        return client.view(name)
    names = ", ".join(sorted({view["name"] for view in views})[:_MOST_NAMED]) or "none"
    raise typer.BadParameter(f"there is no view {name!r}; there are: {names}", param_hint="--view")


def _say_unknown_metrics(jobs: "Sequence[Json]", names: Sequence[str]) -> None:
    """Name the metrics that none of the jobs has: the column is empty then."""
    known = sorted({name for job in jobs for name in job.get("metrics") or {}})
    for name in names:
        if name not in known:
            say(f"None of these jobs has the metric {name}{meant(name, known) or '.'}")
