"""Watching what was submitted to its end, with the exit code that says how it ended. Called by the commands."""

from typing import TYPE_CHECKING

import typer

from hora.explain import NOT_FINISHED, OUTCOME
from hora.output import console_of, display, print_json, say

if TYPE_CHECKING:
    from hora.service import Service


def watch_job(client: "Service", job_id: str, as_json: bool, timeout_s: float | None) -> None:
    """Watch a job to its end, show what it came to, and leave with its exit code. Raises `WaitTimeout`."""
    from hora.follow import follow
    from hora.render import results_table

    console = console_of(stderr=as_json)
    try:
        job = follow(client, job_id, console, timeout_s=timeout_s)
    except KeyboardInterrupt:
        say(f"\nThe job goes on. Come back with `hora show {job_id} --wait`; stop it with `hora cancel {job_id}`.")
        raise typer.Exit(NOT_FINISHED) from None
    print_json(job) if as_json else display(results_table(job, f"{client.url}/v1/jobs/{job_id}"))
    raise typer.Exit(OUTCOME[job["status"]])


def watch_study(client: "Service", study_id: str, as_json: bool, timeout_s: float | None) -> None:
    """Watch a study until all its jobs have ended, show its report, and leave with the exit code that says how.

    Raises `WaitTimeout`.
    """
    from hora.follow_study import follow_study
    from hora.render_studies import study_outcome
    from hora.reporting import drawn

    console = console_of(stderr=as_json)
    try:
        study = follow_study(client, study_id, console, timeout_s=timeout_s)
    except KeyboardInterrupt:
        say(
            f"\nThe study goes on. Come back with `hora studies show {study_id} --wait`; "
            f"stop it with `hora studies cancel {study_id}`."
        )
        raise typer.Exit(NOT_FINISHED) from None
    if as_json:
        print_json(study)
    else:
        print(f"\n{drawn(client.report(study_id), console)}", end="")
        say(f"Its report again: `hora report {study_id}`, also with --format markdown, csv or png.")
    raise typer.Exit(OUTCOME[study_outcome(study) or "failed"])
