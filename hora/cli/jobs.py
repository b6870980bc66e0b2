"""`hora submit`, `clone`, `ls`, `show`, `set`, `cancel`, `pause`, `resume`: jobs.

Part of the command line of `hora.cli.app`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli import list_options as of_list
from hora.cli.exit_codes import USAGE
from hora.cli.options import (
    AsJson,
    CancelSaves,
    Changes,
    Dataset,
    DryRun,
    Gpus,
    JobId,
    Labels,
    Model,
    SpecFile,
    Timeout,
    Wait,
)
from hora.cli.output import display, print_json, say, tell
from hora.cli.spec_command import SpecCommand, check_is_given, spec_options

if TYPE_CHECKING:
    from hora.errors import Json
    from hora.service import Service

app = typer.Typer()

_LINES_BEFORE = 20  # of what a script has printed, shown to a person who comes back to it


@app.command(cls=SpecCommand)
def submit(
    file: SpecFile = None,
    dataset: Dataset = None,
    model: Model = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    gpus: Gpus = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    name: Annotated[str | None, typer.Option()] = None,
    label: Labels = [],  # noqa: B006 - typer copies it
    project: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue", metavar="ID[@EPOCH]", help="Continue this ended job with its spec, from a checkpoint of it."
        ),
    ] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job. `--dry-run` shows its plan and expected time."""
    options = spec_options(locals())
    from hora.cli.checking import check_spec
    from hora.cli.spec_code import pack_code
    from hora.cli.spec_files import read_document, with_labels, with_options
    from hora.cli.submitting import submit_continued, submit_document

    if dry_run and wait:
        raise typer.BadParameter("with --dry-run there is nothing to --wait for")
    if continued is not None:
        if file:
            raise typer.BadParameter("--continue takes the spec of that job: change it with options, not by a FILE")
        changed = with_options(with_labels({}, label), options, changes)
        submit_continued(continued, changed, dry_run=dry_run, wait=wait, timeout_s=timeout, as_json=as_json)
        return
    check_is_given(file, dataset, changes)
    document = with_options(with_labels(read_document(file) if file else {}, label), options, changes)
    archives = pack_code(document)
    check_spec(document)
    submit_document(document, archives, dry_run=dry_run, wait=wait, timeout_s=timeout, as_json=as_json)


@app.command()
def clone(
    job_id: JobId,
    advice: Annotated[
        int | None, typer.Option(metavar="K", help="Apply item K of the job's advice, which `hora show` lists.")
    ] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job's spec again with changes: `--advice` is applied first, then each `--set`."""
    from hora.cli.spec_files import with_options
    from hora.cli.submitting import submit_clone
    from hora.connection import connect

    with connect() as client:
        advised = {} if advice is None else _advised(client, job_id, advice)
        submit_clone(client, job_id, with_options(advised, {}, changes), dry_run=dry_run, as_json=as_json)


def _advised(client: "Service", job_id: str, number: int) -> "Json":
    """The change of one item of a job's advice. If there is no such item, lists the items and exits."""
    from hora.render.text import plain

    items = client.advice(job_id)
    for item in items:
        if item["number"] == number:
            say(plain(item["what"]))
            change: Json = item["change"]
            return change
    if not items:
        for line in _why_no_advice(client.job(job_id)):
            say(line)
    else:
        say(f"Job {job_id} has no advice {number}. It has:")
        for item in items:
            say(f"  {item['number']}  {plain(item['what'])}")
    raise typer.Exit(USAGE)


def _why_no_advice(job: "Json") -> list[str]:
    """What advice rests on, and what to do without any."""
    from hora.render.text import plain

    named = plain(job["id"])
    if not job.get("ended_at"):
        why = "It has not ended: advice rests on what was measured in the whole job."
        return [f"Job {named} has no advice yet. {why}", f"Wait for it with `hora show {named} --wait`."]
    return [
        f"Job {named} has no advice: there is nothing to gain, or too little was measured in it and in jobs like it.",
        "Advice about steps needs 30 of them that take 3 s together; about GPUs and batches, other jobs with others.",
        f"Measure with `hora probe` and `hora study`, or change the job: `hora clone {named} --set FIELD=VALUE`.",
    ]


@app.command("ls")
def list_jobs(
    status: of_list.Status = None,
    name: of_list.Name = None,
    label: of_list.Label = None,
    owner: of_list.Owner = None,
    mine: of_list.Mine = False,
    project: of_list.Project = None,
    study: of_list.OfStudy = None,
    starred: of_list.Starred = False,
    archived: of_list.Archived = False,
    everything: of_list.All = False,
    search: of_list.Search = None,
    where: of_list.Wheres = [],  # noqa: B006 - typer copies it
    since: of_list.Since = None,
    until: of_list.Until = None,
    sort: of_list.Sort = None,
    group: of_list.Groups = [],  # noqa: B006 - typer copies it
    metric: of_list.Metrics = [],  # noqa: B006 - typer copies it
    column: of_list.Columns = [],  # noqa: B006 - typer copies it
    view: of_list.View = None,
    limit: of_list.Limit = None,
    as_csv: of_list.AsCsv = False,
    watch: of_list.Watch = False,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first, without the archived ones; or with `--group` how many have each value."""
    from hora.cli.job_list import JobList, print_groups, with_view
    from hora.cli.times import moment
    from hora.connection import connect

    filters: dict[str, Any] = {
        "status": status, "name": name, "label": label, "owner": owner, "project": project, "study": study,
        "starred": starred or None, "archived": archived or None, "search": search, "since": moment("--since", since),
        "until": moment("--until", until), "where": where or None, "sort": sort,
    }  # fmt: skip
    of_list.check(locals())
    with connect() as client:
        if mine:
            filters["owner"] = client.me()["user"]
        if view is not None:
            filters, column = with_view(client, view, filters, column)
        if filters.get("archived") is None and not everything:
            filters["archived"] = False
        elif filters.get("archived") == "all":  # of a saved view
            filters["archived"] = None
        if group:
            print_groups(client, group, filters, metrics=metric, limit=limit, as_csv=as_csv, as_json=as_json)
            return
        job_list = JobList(client, filters, columns=column, metrics=metric, limit=limit)
        if as_csv:
            job_list.print_csv()
        elif watch:
            job_list.watch(as_json)
        else:
            job_list.print(as_json)


@app.command()
def show(job_id: JobId, wait: Wait = False, as_json: AsJson = False) -> None:
    """Show one job: its results, where its time went, and what to try next."""
    from hora.cli.job_details import fetch_details
    from hora.cli.watch import watch_job
    from hora.connection import connect
    from hora.render.analysis import advice_rows, analysis_rows
    from hora.render.costs import usage_rows
    from hora.render.jobs import job_details

    with connect() as client:
        if wait:
            watch_job(client, job_id, as_json, None, tail=_LINES_BEFORE)
        if as_json:
            print_json(client.job(job_id))
            return
        details = fetch_details(client, job_id)
    more = usage_rows(details.attempts) | analysis_rows(details.analysis) | advice_rows(details.advice)
    display(job_details(details.job, attempt=details.attempt, hosts=details.hosts, more=more))
    for sentence in details.missing:
        say(sentence)
    if details.advice:
        say(f"Try item K with `hora clone {job_id} --advice K`. `--dry-run` shows its plan and expected time.")


@app.command("set")
def change(
    job_id: JobId,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="priority, time_limit_s (none: no limit), name, starred, notes, label.KEY, or archived and project of"
            " an ended job. For notes and labels, nothing after the = removes them.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Change a job's priority, time limit, name, labels, star, notes, archive or project. A running job goes on."""
    from hora.cli.job_changes import changed_text, changes_of
    from hora.connection import connect
    from hora.render.text import plain

    document = changes_of(changes)
    with connect() as client:
        job = client.update(job_id, document)
    print_json(job) if as_json else tell(f"{plain(job['id'])} has {changed_text(job, document)}")


@app.command()
def cancel(job_id: JobId, save: CancelSaves = False, as_json: AsJson = False) -> None:
    """Cancel a job. It ends within seconds."""
    words = "saves, then it is cancelled" if save else "is being cancelled"
    _change(lambda client: client.cancel(job_id, save=save), as_json, {"cancelled": "cancelled"}, lambda _: words)


@app.command()
def pause(job_id: JobId, as_json: AsJson = False) -> None:
    """Pause a job. A running job saves first and goes back to the queue."""
    _change(lambda client: client.pause(job_id), as_json, {"queued": "paused"}, _how_it_pauses)


@app.command()
def resume(job_id: JobId, as_json: AsJson = False) -> None:
    """Resume a paused job. It continues where it was saved."""
    _change(lambda client: client.resume(job_id), as_json, {"queued": "waits for its slots"}, lambda _: "continues")


def _how_it_pauses(job: "Json") -> str:
    """A script that never asks runs on to its end."""
    return "saves, then it is paused" if job.get("code") is None else "is paused when it next calls run.should_stop()"


def _change(
    request: "Callable[[Service], Json]",
    as_json: bool,
    by_status: dict[str, str],
    otherwise: "Callable[[Json], str]",
) -> None:
    """Change a job, and print what happens to it, by its new status."""
    from hora.connection import connect

    with connect() as client:
        job = request(client)
    print_json(job) if as_json else tell(f"{job['id']} {by_status.get(job['status']) or otherwise(job)}")
