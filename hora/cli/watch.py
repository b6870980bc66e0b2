"""Watches jobs and studies to their end, and exits with the code that says how they ended. Called by the commands."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from hora.cli.exit_codes import NOT_FINISHED, OUTCOME
from hora.cli.output import console_of, display, print_line, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hora.service import Service

UPDATE_PERIOD_S = 2.0


def watch_job(
    client: "Service", job_id: str, as_json: bool, timeout_s: float | None, *, tail: int | None = None
) -> None:
    """Watch a job to its end, show its results, and exit with its code. Raises `WaitTimeout`.

    What a script prints is shown from its start, or from its last `tail` lines on.

    As JSON: one object a line, the job after each change and at its end.
    """
    from hora.cli.follow import follow
    from hora.cli.job_details import hosts_of
    from hora.render.jobs import devices, results_table

    try:
        if as_json:
            job = client.wait(job_id, on_update=print_line, timeout_s=timeout_s)
        else:
            job = follow(client, job_id, console_of(), timeout_s=timeout_s, tail=tail)
    except KeyboardInterrupt:
        say("")
        say(f"The job continues. Come back with `hora show {job_id} --wait`; stop it with `hora cancel {job_id}`.")
        raise typer.Exit(NOT_FINISHED) from None
    if not as_json:
        attempt = next(iter(reversed(client.attempts(job_id))), None)
        trained_on = devices(attempt, hosts_of(client, attempt))
        display(results_table(job, f"{client.url}/jobs/{job_id}", trained_on=trained_on))
    raise typer.Exit(OUTCOME[job["status"]])


def watch_study(client: "Service", study_id: str, as_json: bool, timeout_s: float | None) -> None:
    """Watch a study until all its jobs have ended, show its report, and exit with its code.

    As JSON: one object a line, as for a job. Raises `WaitTimeout`.
    """
    from hora.cli.follow_study import follow_study
    from hora.cli.reports import report_text
    from hora.render.studies import study_outcome

    console = console_of()
    try:
        if as_json:
            study = client.wait_study(study_id, on_update=print_line, timeout_s=timeout_s)
        else:
            study = follow_study(client, study_id, console, timeout_s=timeout_s)
    except KeyboardInterrupt:
        say("")
        say(
            f"The study continues. Come back with `hora studies show {study_id} --wait`; "
            f"stop it with `hora studies cancel {study_id}`."
        )
        raise typer.Exit(NOT_FINISHED) from None
    if not as_json:
        print(f"\n{report_text(client.report(study_id), console)}", end="")
        say(f"Show this report again with `hora report {study_id}`; `--format` takes markdown, csv or png too.")
    raise typer.Exit(OUTCOME[study_outcome(study) or "failed"])


def watch_table(make: "Callable[[], RenderableType]", as_json: bool) -> None:
    """Update a table every two seconds until Ctrl-C. Only on a terminal."""
    from rich.live import Live

    console = console_of()
    if as_json or not console.is_terminal:
        raise typer.BadParameter("--watch needs a terminal")
    try:
        with Live(make(), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(UPDATE_PERIOD_S)
                live.update(make(), refresh=True)
    except KeyboardInterrupt:
        display(make())
