"""`hora export`: training with no service. Part of the command line of `hora.cli.app`."""

from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import Changes

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
    from hora.render.slurm_script import needs_service, problems_alone, slurm_script
    from jobs.model.problems import InvalidSpec
    from jobs.model.spec import spec_from

    if not slurm:
        raise typer.BadParameter("give --slurm: a script for Slurm is all that can be exported today")
    document = with_options(read_document(file), {}, changes)
    if problems := needs_service(document):
        raise InvalidSpec(problems)
    spec = spec_from(document)
    if problems := [*problems_alone(spec, nodes=nodes), *_problems_here(spec)]:
        raise InvalidSpec(problems)
    print(slurm_script(spec, nodes=nodes, python=sys.executable, run=secrets.token_hex(4)), end="")


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
