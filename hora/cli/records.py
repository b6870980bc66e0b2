"""`hora logs` and `hora metrics`: the log and the series of a job. Part of the command line of `hora.cli.app`."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.exit_codes import NOT_FINISHED, NOT_FOUND
from hora.cli.options import AsJson, JobId
from hora.cli.output import console_of, print_json, say, tell
from hora.cli.times import WHEN, moment
from hora.errors import Json, ProblemError
from jobs.model.log_levels import LogLevel

if TYPE_CHECKING:
    from hora.service import Service

app = typer.Typer()
_MOST_POINTS = 500  # of a series: a terminal shows fewer
_MOST_OF_CSV = 10_000
_FEWEST_POINTS = 10  # where only names are wanted
_STYLES = {"debug": "dim", "warning": "yellow", "error": "red"}  # of lines of a log


@app.command()
def logs(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the log until the job ends.")] = False,
    rank: Annotated[
        list[int],
        typer.Option(metavar="N", min=-1, help="Only this rank. -1 is the launcher. Repeat it for several."),
    ] = [],  # noqa: B006 - typer copies it
    attempt: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only this attempt.")] = None,
    level: Annotated[LogLevel | None, typer.Option(help="Only lines of this level, and of more serious ones.")] = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only lines with this text.")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help=f"Only lines from then on: {WHEN}.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only lines before then, written like --since.")
    ] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=1, max=10_000, help="Only the last N lines.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job. With `--json`: one object a line."""
    from hora.connection import connect

    if follow and until is not None:
        raise typer.BadParameter("--follow and --until exclude each other: new lines are printed after that time")
    span = {"since": moment("--since", since), "until": moment("--until", until)}
    try:
        with connect() as client:
            lines = client.log_lines(
                job_id, rank=rank, attempt=attempt, level=level, search=search, **span, tail=tail, follow=follow
            )
            is_empty = True
            for line in lines:
                is_empty = False
                who = "launcher" if line["rank"] < 0 else line["rank"]
                text = json.dumps(line) if as_json else f"[{who}] {line['text']}"
                tell(text, flush=follow, style=None if as_json else _STYLES.get(line.get("level", "info")))
            if is_empty and not as_json:
                say("The log has no lines that match.")
    except KeyboardInterrupt:
        if follow:
            say("")
            say(f"The job continues. Come back with `hora logs {job_id} -f`, or `hora show {job_id} --wait`.")
        raise typer.Exit(NOT_FINISHED) from None


@app.command()
def metrics(
    job_id: JobId,
    name: Annotated[str | None, typer.Option(help="Only this metric, such as samples_per_s.")] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the values as CSV: metric, rank (-1: over all), step, value.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Plot a job's metrics over its epochs, or over its steps if it reports no epochs."""
    from hora.connection import connect
    from hora.render.metrics import comma_separated
    from hora.render.plot import OVER_ALL_RANKS, plots

    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other")
    with connect() as client:
        if as_csv:
            series = _metrics(client, job_id, name, max_points=_MOST_OF_CSV)
            if name and not series:
                _check_name(client, job_id, name)
            print(comma_separated(series), end="")
            return
        series = _metrics(client, job_id, name, axis="epoch")
        if as_json:
            print_json({"series": series})
            return
        of_epochs = [one for one in series if one["rank"] == OVER_ALL_RANKS]
        of_steps = client.metrics(job_id, name=name, rank=0, max_points=_MOST_POINTS)
        if name and not series and not of_steps:
            _check_name(client, job_id, name)
    console = console_of()
    colour = console.is_terminal and not console.no_color
    figures = plots([*of_epochs, *of_steps], width=min(console.width, 100), colour=colour, names=[name] if name else [])
    for figure in figures:
        print(figure, end="\n\n")
    if not figures:
        say("There are no values yet.")


def _metrics(client: "Service", job_id: str, name: str | None, **options: Any) -> list[Json]:
    """The series of a job. A name that the service refuses is answered as `_check_name` does."""
    try:
        return client.metrics(job_id, name=name, **options)
    except ProblemError:
        if name:
            _check_name(client, job_id, name)
        raise


def _check_name(client: "Service", job_id: str, name: str) -> None:
    """If the job has other metrics, but none of this name, say which and exit."""
    names = sorted({one["name"] for one in client.metrics(job_id, max_points=_FEWEST_POINTS)})
    if names and name not in names:
        from jobs.suggestions import meant

        say(f"Job {job_id} has no metric {name}. It has: {', '.join(names)}{meant(name, names) or '.'}")
        raise typer.Exit(NOT_FOUND)
