"""`hora export` and `hora import`: training with no service. Part of the command line of `hora.cli.app`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import AsJson, Changes
from hora.cli.output import print_json, tell

if TYPE_CHECKING:
    from jobs.model.problems import FieldProblem
    from jobs.model.spec import Spec

app = typer.Typer()


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A spec in YAML or JSON. - reads standard input.")],
    slurm: Annotated[bool, typer.Option("--slurm", help="Print a batch script for Slurm. Required.")] = False,
    nodes: Annotated[int, typer.Option(min=1, help="The number of nodes. The ranks are spread evenly.")] = 1,
    changes: Changes = [],  # noqa: B006 - typer copies it
) -> None:
    """Print a script that trains a spec with no service: `--slurm` for `sbatch`."""
    import secrets
    import sys

    from hora.cli.spec_files import read_document, with_options
    from hora.extras import require
    from hora.render.slurm_script import needs_service, problems_alone, slurm_script
    from jobs.model.problems import InvalidSpec
    from jobs.model.spec import spec_from

    if not slurm:
        raise typer.BadParameter("give --slurm: a script for Slurm is all that can be exported today")
    require("The script trains with this Python", "worker")
    document = with_options(read_document(file), {}, changes)
    if problems := needs_service(document):
        raise InvalidSpec(problems)
    spec = spec_from(document)
    if problems := [*problems_alone(spec, nodes=nodes), *_problems_here(spec)]:
        raise InvalidSpec(problems)
    print(slurm_script(spec, nodes=nodes, python=sys.executable, run=secrets.token_hex(4)), end="")


@app.command("import")
def import_run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that an exported script left.")],
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="The project of its job, in place of the one in its spec.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a run that was trained with no service. It becomes a job with its curves and logs."""
    from hora.cli.upload_progress import sending
    from hora.connection import connect
    from hora.service.sending_runs import packed_run, send_run

    with packed_run(folder, project=project) as run, connect() as client, sending(run.size_bytes) as show:
        job = send_run(client, run, show)
    print_json(job) if as_json else tell(job["id"])


def _problems_here(spec: "Spec") -> "list[FieldProblem]":
    """What the service would refuse of a spec, with the settings of this environment, which the job gets too."""
    from pydantic import ValidationError

    from hora.errors import HoraError
    from jobs.lifecycle.admission import missing_paths, unsupported
    from jobs.lifecycle.site_policy import site_policy
    from jobs.runtime.settings import Settings, in_sentences

    try:
        site = site_policy(Settings())
    except ValidationError as error:
        raise HoraError(in_sentences(error)) from None
    return unsupported(spec, site) or missing_paths(spec, site)
