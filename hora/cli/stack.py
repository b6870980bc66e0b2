"""`hora up`, `down`, `keys`, `doctor`: the stack and this machine. Part of the command line of `hora.cli.app`."""

import os
import sys
from typing import Annotated

import typer

from hora.cli.exit_codes import ERROR
from hora.cli.options import AsJson
from hora.cli.output import display, print_json, tell

app = typer.Typer()


@app.command()
def up(
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Return when the stack is ready. It stays up.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a stack on this machine: database, broker, API and a worker."""
    from hora.extras import require

    are_given = {"HORA_DATABASE_URL", "HORA_BROKER_URL"} <= os.environ.keys()
    require("`hora up` runs the service on this machine", "api", "worker", *(() if are_given else ("embedded",)))
    from hora.doctor.machine import scripts
    from hora.stack.local import start

    def print_line(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    for finding in scripts():
        if finding.level != "ok":
            print_line(f"Scripts: {finding.found}. {finding.advice}")
    url = start(detach=detach, print_line=print_line)
    if as_json and url:
        print_json({"url": url})


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the stack on this machine. Running jobs save first, and continue when it is up again."""
    from hora.extras import require

    require("`hora down` stops a stack on this machine", "service")
    from hora.stack.local import stop

    stopped = stop()
    if as_json:
        print_json({"stopped": stopped})
    for line in [] if as_json else stopped or ["nothing was running"]:
        tell(line)


@app.command()
def keys(
    folder: Annotated[
        str, typer.Argument(envvar="HORA_SSH_DIR", help="The folder to make them in: HORA_SSH_DIR of every host.")
    ],
    as_json: AsJson = False,
) -> None:
    """Make the ssh keys for jobs on several hosts. Give every host the same keys."""
    from pathlib import Path

    from hora.stack.keys import make_keys

    files = [str(file) for file in make_keys(Path(folder))]
    if as_json:
        print_json({"items": files})
    for line in [] if as_json else files:
        tell(line)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine and the service, and say what to do."""
    from dataclasses import asdict

    from hora.doctor.checks import examine
    from hora.doctor.findings import findings_table

    findings = list(examine())
    print_json({"items": [asdict(finding) for finding in findings]}) if as_json else display(findings_table(findings))
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(ERROR)
