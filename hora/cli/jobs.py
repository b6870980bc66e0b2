"""`hora submit`, `clone`, `ls`, `show`, `cancel`, `pause`, `resume`: jobs.

Part of the command line of `hora.cli.app`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.completion import statuses, study_ids
from hora.cli.exit_codes import USAGE
from hora.cli.options import AsJson, Changes, Dataset, DryRun, Gpus, JobId, Limit, Model, SpecFile, Timeout, Wait
from hora.cli.output import display, print_json, say, tell
from hora.cli.spec_command import SpecCommand
from hora.cli.times import WHEN

if TYPE_CHECKING:
    from hora.errors import Json
    from hora.service import Service

app = typer.Typer()


@app.command(cls=SpecCommand)
def submit(
    file: SpecFile = None,
    dataset: Dataset = None,
    model: Model = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    gpus: Gpus = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Submit a training job; with --dry-run see what it would come to and is expected to take."""
    from hora.cli.spec_files import read_document, validated, with_options
    from hora.cli.watch import watch_job
    from hora.connection import connect

    if file is None and dataset is None and not changes:
        raise typer.BadParameter("give a FILE, or at least --dataset")
    if dry_run and wait:
        raise typer.BadParameter("with --dry-run there is nothing to --wait for")
    options = {
        "dataset": dataset,
        "model": model,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "gpus": gpus,
        "epochs": epochs,
        "project": project,
    }
    document = validated(with_options(read_document(file) if file else {}, options, changes))
    with connect() as client:
        if dry_run:
            _preview(client.dry_run(document), as_json)
            return
        job = client.submit(document)
        if wait:
            watch_job(client, job["id"], as_json, timeout)
        elif as_json:
            print_json(job)
        else:
            tell(job["id"])
            say(f"Watch it with `hora show {job['id']} --wait`.")


@app.command()
def clone(
    job_id: JobId,
    advice: Annotated[
        int | None, typer.Option(metavar="K", help="Apply this item of the job's advice; `hora show` lists them.")
    ] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job's spec once more, with changes: those of an advice first, then each --set."""
    from hora.cli.spec_files import with_options
    from hora.connection import connect

    with connect() as client:
        advised = {} if advice is None else _advised(client, job_id, advice)
        document = with_options(advised, {}, changes)
        if dry_run:
            _preview(client.dry_run_clone(job_id, document), as_json)
            return
        job = client.clone(job_id, document)
    print_json(job) if as_json else tell(job["id"])


def _advised(client: "Service", job_id: str, number: int) -> "Json":
    """The change of one item of a job's advice. Leaves with what there is where there is no such item."""
    from hora.render.text import plain

    items = client.advice(job_id)
    for item in items:
        if item["number"] == number:
            say(plain(item["what"]))
            change: Json = item["change"]
            return change
    if not items:
        say(f"There is no advice for job {job_id}: nothing to gain, or no evidence.")
    else:
        say(f"Job {job_id} has no advice {number}. There is:")
        for item in items:
            say(f"  {item['number']}  {plain(item['what'])}")
    raise typer.Exit(USAGE)


def _preview(preview: "Json", as_json: bool) -> None:
    """Show what a submission would come to."""
    from hora.render.quote import preview_table, warning_lines

    if as_json:
        print_json(preview)
        return
    display(preview_table(preview))
    for line in warning_lines(preview):
        say(line)


@app.command("ls")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="Only jobs of this status.", autocompletion=statuses)] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    label: Annotated[str | None, typer.Option(metavar="K:V", help="Only jobs with this label.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only jobs of this person.")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this project.")] = None,
    study: Annotated[
        str | None, typer.Option(metavar="ID", help="Only jobs of this study.", autocompletion=study_ids)
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only jobs with this text in their name, id, owner, data, model or labels."),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help=f"Only those submitted since {WHEN}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Only those submitted before, as --since.")] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="[-]FIELD", help="Such as priority or -ended_at; - is the greatest first.")
    ] = None,
    limit: Limit = 50,
    watch: Annotated[bool, typer.Option("--watch", help="Show the list anew every two seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    from itertools import islice

    from hora.cli.times import moment
    from hora.cli.watch import watch_table
    from hora.connection import connect
    from hora.render.jobs import jobs_table

    filters: dict[str, Any] = {
        "status": status, "name": name, "label": label, "owner": owner, "project": project, "study": study,
        "search": search, "since": moment(since), "until": moment(until), "sort": sort,
    }  # fmt: skip
    with connect() as client:

        def found() -> "list[Json]":
            return list(islice(client.jobs(**filters, page_size=min(limit, 100)), limit))

        if watch:
            watch_table(lambda: jobs_table(found()), as_json)
        else:
            print_json({"items": found()}) if as_json else display(jobs_table(found()))


@app.command()
def show(job_id: JobId, wait: Wait = False, as_json: AsJson = False) -> None:
    """Show one job: what it came to, what its time went into, and what to try next."""
    from hora.cli.job_details import all_about
    from hora.cli.watch import watch_job
    from hora.connection import connect
    from hora.render.analysis import advice_rows, analysis_rows
    from hora.render.jobs import job_details

    with connect() as client:
        if wait:
            watch_job(client, job_id, as_json, None)
        if as_json:
            print_json(client.job(job_id))
            return
        known = all_about(client, job_id)
    more = analysis_rows(known.analysis) | advice_rows(known.advice)
    display(job_details(known.job, attempt=known.attempt, more=more))
    for what in known.missing:
        say(what)
    if known.advice:
        say(f"Try one with `hora clone {job_id} --advice K`; with --dry-run see first what it is expected to take.")


@app.command()
def cancel(job_id: JobId, as_json: AsJson = False) -> None:
    """Stop a job; it ends within seconds."""
    _ask(lambda client: client.cancel(job_id), as_json, {"cancelled": "cancelled"}, "is being cancelled")


@app.command()
def pause(job_id: JobId, as_json: AsJson = False) -> None:
    """Let a job wait; one that runs saves and goes back to the queue."""
    _ask(lambda client: client.pause(job_id), as_json, {"queued": "paused"}, "saves, and is paused then")


@app.command()
def resume(job_id: JobId, as_json: AsJson = False) -> None:
    """Let a paused job go on from where it was saved."""
    _ask(lambda client: client.resume(job_id), as_json, {"queued": "waits for its slots"}, "goes on")


def _ask(ask: "Callable[[Service], Json]", as_json: bool, told: dict[str, str], otherwise: str) -> None:
    """Ask something of a job, and tell what comes of it by its status."""
    from hora.connection import connect

    with connect() as client:
        job = ask(client)
    print_json(job) if as_json else tell(f"{job['id']} {told.get(job['status'], otherwise)}")
