"""Fetches and writes a study's report, in any format. Called by `hora report`, and when a study has ended."""

import io
import json
import sys
from pathlib import Path
from typing import Literal

import typer
from rich.console import Console
from rich.table import Table

from hora.cli.output import ENDLESS
from hora.render.report import EXPENDABLE, report_lines, report_table
from hora.render.search import importances_line, trials_table
from hora.render.text import plain_lines
from hora.service import HoraError, Json, Service
from hora.service.studies import Outliers

Format = Literal["table", "markdown", "csv", "json", "png"]
_BY_SUFFIX: dict[str, Format] = {
    ".md": "markdown", ".csv": "csv", ".json": "json", ".png": "png", ".txt": "table", "": "table"
}  # fmt: skip


def format_for(output: str | None) -> Format:
    """The format that belongs to the name of a file; a table without an ending. Raises `BadParameter`."""
    suffix = Path(output or "").suffix.lower()
    if suffix not in _BY_SUFFIX:
        endings = ", ".join(filter(None, _BY_SUFFIX))
        raise typer.BadParameter(
            f"no report ends in {suffix}: write {endings}, or give --format", param_hint="--output"
        )
    return _BY_SUFFIX[suffix]


def fetch(
    client: Service,
    study_id: str,
    format: Format,  # noqa: A002 - the option's name
    target: float | None,
    console: Console,
    *,
    keep_outliers: bool = False,
) -> bytes:
    """The report in a format. A table fits `console`."""
    outliers: Outliers | None = "keep" if keep_outliers else None
    match format:
        case "png":
            return client.report(study_id, target=target, outliers=outliers, format="png")
        case "markdown" | "csv":
            text = client.report(study_id, target=target, outliers=outliers, format=format)
            return (plain_lines(text) if console.is_terminal else text).encode()
    report = client.report(study_id, target=target, outliers=outliers)
    if format == "json":
        return f"{json.dumps(report, indent=2)}\n".encode()
    return report_text(report, console).encode()


def report_text(report: Json, console: Console) -> str:
    """The table of a report, and below it the basis of its figures, in the width and colours of a console."""
    is_search = report.get("trials") is not None
    table, left_out = (trials_table(report), []) if is_search else _fitting_table(report, console)
    with console.capture() as captured:
        console.print(table, "")
        for line in [*report_lines(report), *(importances_line(report) if is_search else [])]:
            console.print(line)
        if left_out:
            console.print(f"Left out because the terminal is too narrow: {', '.join(left_out)}.")
    text = captured.get()
    return text if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _fitting_table(report: Json, console: Console) -> tuple[Table, list[str]]:
    """The table without the columns that do not fit, and the names of these."""
    whole = report_table(report)
    heads = [str(column.header) for column in whole.columns]
    table, left_out = whole, list[str]()
    endless = console.options.update(max_width=ENDLESS)
    for head in (head for head in EXPENDABLE if head in heads):
        if console.measure(table, options=endless).maximum <= console.width:
            break
        left_out.append(head)
        table = report_table(report, without=left_out)
    return table, left_out


def write(content: bytes, output: str | None) -> None:
    """Write to the file of that name, or to standard output. Raises `HoraError` if the file cannot be written."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        raise HoraError(f"{output} cannot be written: {error.strerror}.") from error


def plain_console() -> Console:
    """A console for a table that goes into a file."""
    return Console(file=io.StringIO(), width=ENDLESS, markup=False, emoji=False)
