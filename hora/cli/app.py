"""The command `hora`. Its exit code says how a job, or a study, ended.

    0 succeeded, or done     2 usage, or an invalid spec     100 failed      101 not finished
    102 not found            103 cancelled                   1 everything else     130 interrupted, but while waiting

Results go to standard output, everything else to standard error. With `--json` standard output is the API's own
JSON and nothing else. An output that nobody reads any more ends the command without a word. The commands are in modules
of their own, `hora.cli_*`, which import what they use when they run.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hora.cli import (
    artifacts,
    config,
    datasets,
    hosts,
    jobs,
    people,
    probe,
    projects,
    records,
    stack,
    studies,
    webhooks,
)
from hora.cli.exit_codes import ERROR, explain
from hora.cli.output import say
from hora.connection import use_profile
from hora.errors import HoraError
from hora.home import StackError

app = typer.Typer(
    help="Train deep-learning models with Horovod: submit a spec, watch it, see whether it scaled.",
    epilog="The documentation is at /help of every service, such as http://127.0.0.1:8400/help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (
    stack.app, jobs.app, people.app, probe.app, records.app, studies.app, artifacts.app,
):  # fmt: skip
    app.add_typer(commands)  # without a name: its commands are commands of `hora`
app.add_typer(studies.studies, name="studies")
app.add_typer(hosts.app, name="hosts")
app.add_typer(webhooks.app, name="webhook")
app.add_typer(people.tokens, name="token")
app.add_typer(people.users, name="user")
app.add_typer(projects.app, name="project")
app.add_typer(config.app, name="config")
app.add_typer(datasets.app, name="dataset")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("hora"))
        raise typer.Exit


@app.callback()
def everywhere(
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use this profile of the file; local: the stack here.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train deep-learning models with Horovod: submit a spec, watch it, see whether it scaled."""
    del version
    use_profile(profile)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may hold what the terminal's encoding lacks
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, so that Python does not complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        app(arguments, prog_name="hora")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ERROR
    except (HoraError, StackError, ValueError) as error:
        code, lines = explain(error)
        for line in lines:
            say(line)
        return code
    return 0
