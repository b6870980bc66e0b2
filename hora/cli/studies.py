"""`hora study`, `hora report` and the group `hora studies`. Part of the command line of `hora.cli.app`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hora.cli.exit_codes import NOT_FOUND
from hora.cli.options import AsJson, CancelSaves, Changes, DryRun, Limit, StudyId, StudyIds, Timeout, Yes
from hora.cli.output import console_of, display, print_json, print_list, say, tell

if TYPE_CHECKING:
    from hora.errors import Json
    from hora.service import Service
    from hora.service.studies import StudyFilters

app = typer.Typer()
studies = typer.Typer(help="List studies. Show, steer, move or delete a study, add notes, train its best job again.")
app.add_typer(studies, name="studies")

StudyChanges = Annotated[
    list[str],
    typer.Option("--set", metavar="FIELD=VALUE", help="Set any field, such as base.epochs=5 or grid.gpus='[1, 2]'."),
]
WaitForStudy = Annotated[bool, typer.Option("--wait", help="Watch the study until all its jobs have ended.")]
Format = Literal["table", "markdown", "csv", "json", "png"]


@app.command()
def study(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A study in YAML or JSON. - reads standard input.")],
    changes: StudyChanges = [],  # noqa: B006 - typer copies it
    dry_run: DryRun = False,
    wait: WaitForStudy = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Submit a study: a grid of jobs that differ in some fields, or a search. `--dry-run` shows what it would run."""
    from hora.cli.checking import check_study
    from hora.cli.spec_code import pack_code, send_packed
    from hora.cli.spec_files import read_document, with_options
    from hora.cli.watch import watch_study
    from hora.connection import connect

    if dry_run and wait:
        raise typer.BadParameter("with --dry-run there is nothing to --wait for")
    document = with_options(read_document(file), {}, changes, whole_below=("grid", "search.space"))
    archives = pack_code(document)
    check_study(document)
    with connect() as client:
        send_packed(client, archives)
        if dry_run:
            _plan(client.dry_run_study(document), as_json)
            return
        submitted = client.submit_study(document)
        if wait:
            watch_study(client, submitted["id"], as_json, timeout)
        elif as_json:
            print_json(submitted)
        else:
            tell(submitted["id"])
            jobs_to_watch = "One job. Watch it" if submitted["jobs"] == 1 else f"{submitted['jobs']} jobs. Watch them"
            say(f"{jobs_to_watch} with `hora studies show {submitted['id']} --wait`.")


def _plan(planned: "Json", as_json: bool) -> None:
    """Show the cells of a study that is not submitted, or the space of a search."""
    from hora.render.quote import warning_lines
    from hora.render.search import search_line, space_table
    from hora.render.studies import planned_table

    if as_json:
        print_json(planned)
        return
    if planned.get("search") is not None:
        display(space_table(planned["search"]))
        say(search_line(planned))
    else:
        display(planned_table(planned))
        jobs, cells, repeats = planned["jobs"], len(planned["cells"]), planned["repeats"]
        each = "once" if repeats == 1 else f"{repeats} times"
        say(f"{jobs} job{'s' * (jobs > 1)}: {cells} cell{'s' * (cells > 1)}, each {each}.")
    for line in warning_lines(planned):
        say(line)


@app.command()
def report(
    study_id: StudyId,
    format: Annotated[  # noqa: A002 - the option's name
        Format | None, typer.Option(help="Without it: the format of the output file's name, or a table.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the report to this file.")
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="ACCURACY", help="Measure time and GPU-hours to this validation accuracy, 0 to 1."),
    ] = None,
    keep_outliers: Annotated[
        bool, typer.Option("--keep-outliers", help="Count repeats that stalled in the figures of speed too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report the time, throughput, accuracy, speed-up and cost of each cell of a study so far, or a search's trials."""
    from pathlib import Path

    from hora.cli.reports import fetch, format_for, plain_console, write
    from hora.connection import connect
    from jobs.runtime.files import size_text

    chosen = "json" if as_json else format or format_for(output)
    console = console_of() if output is None else plain_console()
    if chosen == "png" and output is None and console.is_terminal:
        raise typer.BadParameter("a terminal cannot show a PNG picture: give -o FILE, or use a pipe")
    with connect() as client:
        content = fetch(client, study_id, chosen, target, console, keep_outliers=keep_outliers)
    write(content, output)
    if output is not None:
        say(f"The report is in {Path(output).absolute()}, as {chosen}, {size_text(len(content))}.")


@studies.callback(invoke_without_command=True)
def all_studies(context: typer.Context, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List studies. Show, steer, move or delete a study, add notes, train its best job again."""
    if context.invoked_subcommand is None:
        list_studies(limit=limit, as_json=as_json)


@studies.command("ls")
def list_studies(
    status: Annotated[str | None, typer.Option(help="Only studies with a job of this status.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only studies of this user.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own studies.")] = False,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only studies of this project.")] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only studies with a job that `hora ls --search` finds.")
    ] = None,
    where: Annotated[
        list[str],
        typer.Option(
            "--where", metavar="CONDITION", help="Only studies with a job that `hora ls --where` finds; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies it
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List studies, newest first."""
    from itertools import islice

    from hora.connection import connect
    from hora.render.studies import studies_table

    if mine and owner is not None:
        raise typer.BadParameter("--mine and --owner exclude each other")
    with connect() as client:
        filters: StudyFilters = {
            "status": status, "owner": client.me()["user"] if mine else owner, "project": project, "search": search,
            "where": where or None,
        }  # fmt: skip
        found = list(islice(client.studies(**filters, page_size=min(limit, 100)), limit))
    nothing = "No study matches." if any(filters.values()) else "No studies. Submit one: `hora study FILE`."
    print_list(found, studies_table, nothing=nothing, as_json=as_json)


@studies.command()
def show(
    study_id: StudyId,
    wait: WaitForStudy = False,
    as_json: AsJson = False,
) -> None:
    """Show one study: its cells, and the status of their jobs."""
    from hora.cli.watch import watch_study
    from hora.connection import connect
    from hora.render.studies import cells_table, study_facts

    with connect() as client:
        if wait:
            watch_study(client, study_id, as_json, None)
        state = client.study(study_id)
    if as_json:
        print_json(state)
        return
    display(study_facts(state))
    display("")
    display(cells_table(state))


@studies.command("train-best")
def train_best(
    study_id: StudyId,
    changes: Changes = [],  # noqa: B006 - typer copies it
    from_weights: Annotated[
        bool, typer.Option("--from-weights", help="Begin with the weights that the best job kept.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Submit the job of the best trial or cell again with changes, such as --set epochs=100."""
    from hora.cli.spec_files import with_options
    from hora.cli.submitting import submit_clone
    from hora.connection import connect

    with connect() as client:
        job_id = _best_job(client, study_id)
        weights = {"model": {"weights": f"job:{job_id}"}} if from_weights else {}
        submit_clone(client, job_id, with_options(weights, {}, changes), dry_run=dry_run, as_json=as_json)


def _best_job(client: "Service", study_id: str) -> str:
    """The job of the best trial, or of the first repeat of the best cell. Exits if no job has a value of the goal."""
    from hora.render.text import plain

    report = client.report(study_id)
    best = report["best"].get("goal")
    if best is None:
        say(f"Study {plain(study_id)} has no best job: none has succeeded with a value of its goal.")
        raise typer.Exit(NOT_FOUND)
    trials = report.get("trials")
    job_id: str = trials[best]["job_id"] if trials else report["cells"][best]["jobs"][0]
    say(f"Its best job is {plain(job_id)}.")
    return job_id


@studies.command()
def cancel(study_id: StudyId, save: CancelSaves = False, as_json: AsJson = False) -> None:
    """Cancel all jobs of a study. They end within seconds."""
    outcome = "is being cancelled" + ("; running jobs save first" if save else "")
    _change(lambda client: client.cancel_study(study_id, save=save), as_json, outcome)


@studies.command()
def pause(study_id: StudyId, as_json: AsJson = False) -> None:
    """Pause all jobs of a study. Running jobs save first."""
    _change(lambda client: client.pause_study(study_id), as_json, "is paused; running jobs save first")


@studies.command()
def resume(study_id: StudyId, as_json: AsJson = False) -> None:
    """Resume the paused jobs of a study, and run those again that failed or were cancelled."""
    _change(lambda client: client.resume_study(study_id), as_json, "continues")


@studies.command("set")
def change(
    study_id: StudyId,
    changes: Annotated[list[str], typer.Argument(metavar="project=NAME", help="The project to which it moves.")],
    as_json: AsJson = False,
) -> None:
    """Move a study that has ended to another project, with all its jobs."""
    from hora.connection import connect
    from hora.render.text import plain

    document = dict(change.partition("=")[::2] for change in changes)
    if list(document) != ["project"] or not document["project"]:
        raise typer.BadParameter(f"{' '.join(changes)} is not project=NAME, the only field that can change")
    with connect() as client:
        moved = client.update_study(study_id, document)
    print_json(moved) if as_json else tell(f"{plain(moved['id'])} has project {plain(moved['project'])}")


@studies.command()
def rm(study_ids: StudyIds, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete studies that have ended, with all their jobs, results, logs and files. It cannot be undone."""
    from hora.cli.removal import ask, named
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        found = {study["id"]: study for study in map(client.study, study_ids)}
        if not yes:
            ask(named(list(found.values()), lambda study: f"{study['jobs']} jobs"))
        for study_id in found:
            client.delete_study(study_id)
            print_json({"deleted": study_id}) if as_json else tell(f"{plain(study_id)} is deleted")


@studies.command()
def note(
    study_id: StudyId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text of the note.")],
    as_json: AsJson = False,
) -> None:
    """Add a note to a study. Its report ends with the notes."""
    from hora.connection import connect
    from hora.render.studies import note_line

    with connect() as client:
        written = client.note_study(study_id, text)
    print_json(written) if as_json else print(note_line(written))


def _change(request: "Callable[[Service], Json]", as_json: bool, outcome: str) -> None:
    """Change a study, and print what happens to it."""
    from hora.connection import connect
    from hora.render.studies import jobs_line

    with connect() as client:
        changed = request(client)
    if as_json:
        print_json(changed)
    else:
        tell(f"{changed['id']} {'is over' if changed['complete'] else outcome}: {jobs_line(changed)}")
