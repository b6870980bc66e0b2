"""`hora rm`: deletes jobs. Part of the command line of `hora.cli.app`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import AsJson, JobIds
from hora.cli.output import print_json, tell

if TYPE_CHECKING:
    from hora.errors import Json

app = typer.Typer()

_MOST_NAMED = 10


@app.command()
def rm(
    job_ids: JobIds,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete jobs that have ended, with their results, logs and files. It cannot be undone."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        jobs = {job["id"]: job for job in map(client.job, job_ids)}
        if not yes:
            _ask(list(jobs.values()))
        for job_id in jobs:
            client.delete(job_id)
            print_json({"deleted": job_id}) if as_json else tell(f"{plain(job_id)} is deleted")


def _ask(jobs: "Sequence[Json]") -> None:
    """Ask a person whether they mean it. Raises `BadParameter` where nobody can answer, and `Abort`."""
    from hora.render.text import plain

    named = [f"{plain(job['id'])} ({plain(job['name'])})" for job in jobs[:_MOST_NAMED]]
    said = ", ".join([*named, *([f"{len(jobs) - _MOST_NAMED} more"] if len(jobs) > _MOST_NAMED else [])])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"this deletes {said} for good; if you mean it, add --yes")
    if not typer.confirm(f"Delete {said} for good, with results, logs and files?", err=True):
        raise typer.Abort
