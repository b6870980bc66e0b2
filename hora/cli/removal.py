"""`hora rm`: deletes jobs. Part of the command line of `hora.cli.app`. `hora studies rm` asks the same question."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from hora.cli.options import AsJson, JobIds, Yes
from hora.cli.output import print_json, tell

if TYPE_CHECKING:
    from hora.errors import Json

app = typer.Typer()

_MOST_NAMED = 10


@app.command()
def rm(job_ids: JobIds, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete jobs that have ended, with their results, logs and files. It cannot be undone."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        jobs = {job["id"]: job for job in map(client.job, job_ids)}
        if not yes:
            ask(named(list(jobs.values())))
        for job_id in jobs:
            client.delete(job_id)
            print_json({"deleted": job_id}) if as_json else tell(f"{plain(job_id)} is deleted")


def named(things: "Sequence[Json]", more: "Callable[[Json], str]" = lambda _: "") -> str:
    """The first of these jobs or studies, with their names and what `more` says."""
    from hora.render.text import plain

    shown = [
        f"{plain(each['id'])} ({', '.join(filter(None, [plain(each['name']), more(each)]))})"
        for each in things[:_MOST_NAMED]
    ]
    return ", ".join([*shown, *([f"{len(things) - _MOST_NAMED} more"] if len(things) > _MOST_NAMED else [])])


def ask(said: str) -> None:
    """Ask a person whether they mean it. Raises `BadParameter` where nobody can answer, and `Abort`."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"this deletes {said} for good; if you mean it, add --yes")
    if not typer.confirm(f"Delete {said} for good, with results, logs and files?", err=True):
        raise typer.Abort
