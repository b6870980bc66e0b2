"""`hora run`, `hora code` and `hora diff`: jobs that run a person's own code.

Part of the command line of `hora.cli.app`.
"""

from pathlib import Path
from typing import Annotated

import typer

from hora.cli.options import AsJson, Changes, Dataset, DryRun, Gpus, Timeout
from hora.cli.spec_command import SpecCommand, spec_options

app = typer.Typer()

# After the first word of the command all words belong to it, also without `--`.
_WHOLE_COMMAND = {"allow_interspersed_args": False}


@app.command(cls=SpecCommand, context_settings=_WHOLE_COMMAND)
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The program and its arguments, which each rank runs once.")
    ],
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder to send, in a copy of which the command runs.")
    ] = Path(),
    gpus: Gpus = None,
    name: Annotated[str | None, typer.Option()] = None,
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
    from hora.cli.spec_code import pack_code
    from hora.cli.spec_files import validated, with_options
    from hora.cli.submitting import submit_document

    if dry_run and detach:
        raise typer.BadParameter("with --dry-run there is nothing to --detach from")
    document = with_options({"code": str(folder)}, options, changes)
    archives = pack_code(document)
    submit_document(validated(document), archives, dry_run=dry_run, wait=not detach, timeout_s=timeout, as_json=as_json)
