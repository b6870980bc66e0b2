"""`hora run`, `hora code` and `hora diff`: jobs that run a person's own code.

Part of the command line of `hora.cli.app`.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.completion import job_ids
from hora.cli.options import AsJson, Changes, Dataset, DryRun, Gpus, JobId, Labels, Timeout
from hora.cli.output import display, print_json, say, tell
from hora.cli.spec_command import SpecCommand, spec_options

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()

# After the first word of the command all words belong to it, also without `--`.
_WHOLE_COMMAND = {"allow_interspersed_args": False}


class _RunCommand(SpecCommand):
    """`hora run`, which says how to give it a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options and the command."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if error.param is not None and error.param.name == "command":
                error.message = "Write it after the options, such as `hora run --gpus 2 -- python train.py`."
            raise


@app.command(cls=_RunCommand, context_settings=_WHOLE_COMMAND)
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The program and its arguments, which each rank runs once.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The folder to send, in a copy of which the command runs. Else the present folder."
        ),
    ] = None,
    gpus: Gpus = None,
    name: Annotated[str | None, typer.Option()] = None,
    label: Labels = [],  # noqa: B006 - typer copies it
    project: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    dataset: Dataset = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Print the job's id and return.")] = False,
    dry_run: DryRun = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Run your own code on the ranks of a job: send a folder, run a command in it, and show its output."""
    options = spec_options(locals())
    from hora.cli.checking import check_spec
    from hora.cli.command_check import command_problems
    from hora.cli.spec_code import pack_code
    from hora.cli.spec_files import with_labels, with_options
    from hora.cli.submitting import submit_document
    from jobs.model.problems import InvalidSpec

    _check_run(folder, changes)
    if dry_run and detach:
        raise typer.BadParameter("with --dry-run there is nothing to --detach from")
    document = with_options(with_labels({"code": str(folder or Path())}, label), options, changes)
    archives = pack_code(document)
    check_spec(document)
    for archive in archives:
        if problems := command_problems(document, {file.name: file.mode for file in archive.files}):
            raise InvalidSpec(problems)
    submit_document(document, archives, dry_run=dry_run, wait=not detach, timeout_s=timeout, as_json=as_json)


def _check_run(folder: Path | None, changes: list[str]) -> None:
    """Refuse a run with two commands or two folders. Raises `BadParameter`."""
    for change in changes:
        field = re.split("[.=]", change)[0].strip()
        if field == "command":
            raise typer.BadParameter("give the command once: after the options, and not with --set too")
        if field == "code" and folder is not None:
            raise typer.BadParameter("give the code once: with --folder, or with --set code")


@app.command()
def code(
    job_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The job, or the digest of an archive of code.", autocompletion=job_ids),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Unpack the code into this new folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the code that a job ran, or fetch it with `--output`."""
    from hora.cli.spec_code import is_digest
    from hora.connection import connect
    from hora.errors import HoraError
    from hora.render.scripts import code_facts, files_table
    from hora.service.sending_code import fetch_code

    with connect() as client:
        job = None if is_digest(job_id) else client.job(job_id)
        digest = job_id if job is None else job.get("code")
        if digest is None:
            raise HoraError(f"Job {job_id} ran no code of its own: Hora trained its model.")
        if output is not None:
            fetch_code(client, digest, output)
            print_json({"saved": [str(output)]}) if as_json else tell(str(output))
            return
        archive = client.code(digest)
    if as_json:
        print_json({"code": archive, "job": job})
        return
    display(code_facts(archive, job))
    display("")
    display(files_table(archive["files"]))


@app.command()
def diff(
    job_id: JobId,
    other_id: Annotated[str, typer.Argument(metavar="OTHER", help="The other job.", autocompletion=job_ids)],
    as_json: AsJson = False,
) -> None:
    """Show what differs between two jobs: their code, their specs and their results."""
    from hora.cli.comparing import compare
    from hora.connection import connect
    from hora.render.scripts import code_changes, fields_table

    with connect() as client:
        found = compare(client, (job_id, other_id))
    if as_json:
        print_json(found)
        return
    changes = code_changes(found["code"])
    parts: list[tuple[str, RenderableType]] = [("code", changes)] if changes.plain else []
    parts += [(part, fields_table(found[part], found["jobs"])) for part in ("spec", "results") if found[part]]
    for number, (title, shown) in enumerate(parts):
        display(("\n" if number else "") + f"{title}:")
        display(shown)
    if not parts:
        say("The jobs do not differ.")
