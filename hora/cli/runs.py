"""`hora export` and `hora import`: training with no service. Part of the command line of `hora.cli.app`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import AsJson, Changes
from hora.cli.output import print_json, say, tell
from jobs.model.problems import FieldProblem

if TYPE_CHECKING:
    from jobs.model.spec import Spec
    from jobs.runtime.settings import Settings

app = typer.Typer()


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A spec in YAML or JSON. - reads standard input.")],
    slurm: Annotated[bool, typer.Option("--slurm", help="Print a batch script for Slurm. Required.")] = False,
    nodes: Annotated[int, typer.Option(min=1, help="The number of nodes. The ranks are spread evenly.")] = 1,
    changes: Changes = [],  # noqa: B006 - typer copies it
) -> None:
    """Print a script that trains a spec, or runs your own code, with no service: `--slurm` for `sbatch`."""
    import secrets
    import sys

    from hora.cli.spec_code import pack_code
    from hora.cli.spec_files import read_document, with_options
    from hora.extras import require
    from hora.render.slurm_script import problems_alone, slurm_script
    from jobs.model.problems import InvalidSpec
    from jobs.model.spec import spec_from

    if not slurm:
        raise typer.BadParameter("give --slurm: a script for Slurm is all that can be exported today")
    require("The script trains with this Python", "worker")
    document = with_options(read_document(file), {}, changes)
    code = document.get("code")
    archives = pack_code(document)
    spec = spec_from(document)
    settings = _settings_here()
    if problems := [*problems_alone(spec, nodes=nodes), *_problems_here(spec, settings)]:
        raise InvalidSpec(problems)
    run = secrets.token_hex(4)
    if not spec.is_script:
        print(slurm_script(spec, nodes=nodes, python=sys.executable, run=run), end="")
    elif archives:
        print(_script_of_command(spec, Path(str(code)), settings, nodes=nodes, run=run), end="")
    else:
        raise InvalidSpec([FieldProblem("code", "only the service has this archive: name the folder", spec.code)])


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


def _script_of_command(spec: "Spec", code: Path, settings: "Settings", *, nodes: int, run: str) -> str:
    """The batch script of own code. Raises `InvalidSpec`, also if its data is not here."""
    import sys

    import hora
    from hora.render.slurm_command import ARTIFACTS, command_script, not_exported, problems_of_code
    from jobs.data.script_data import NoSuchData, script_data
    from jobs.model.plan import resolve_plan
    from jobs.model.problems import InvalidSpec
    from jobs.model.script_values import placeholders

    if problems := problems_of_code(spec):
        raise InvalidSpec(problems)
    try:
        data = script_data(spec.dataset, settings.data_root_list)
    except NoSuchData as error:
        raise InvalidSpec([FieldProblem("dataset", str(error))]) from None
    plan = resolve_plan(spec, None)
    values = placeholders(spec, plan, train=data.train, validation=data.validation, artifacts=ARTIFACTS)
    for note in not_exported(spec):
        say(note)
    environment = settings.environment_paths.get(spec.environment)
    given = {
        "spec": spec.model_dump(mode="json"), "plan": plan.model_dump(mode="json"),
        "train": data.train, "validation": data.validation,
    }  # fmt: skip
    return command_script(
        spec, values, given, nodes=nodes, python=sys.executable, run=run, code=str(code.resolve()),
        library=str(Path(hora.__file__).parent),
        bin_dir=str(Path(sys.executable).parent) if environment is None else f"{environment}/bin",
    )  # fmt: skip


def _settings_here() -> "Settings":
    """The settings of this environment, which the job gets too. Raises `HoraError`."""
    from pydantic import ValidationError

    from hora.errors import HoraError
    from jobs.runtime.settings import Settings, in_sentences

    try:
        return Settings()
    except ValidationError as error:
        raise HoraError(in_sentences(error)) from None


def _problems_here(spec: "Spec", settings: "Settings") -> "list[FieldProblem]":
    """What the service would refuse of a spec. Whoever runs a script needs nobody's leave for own code."""
    from dataclasses import replace

    from jobs.lifecycle.admission import missing_paths, unsupported
    from jobs.lifecycle.site_policy import site_policy

    site = replace(site_policy(settings), runs_code=True, installs_requirements=True)
    return unsupported(spec, site) or missing_paths(spec, site)
