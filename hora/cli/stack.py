"""`hora up`, `down`, `keys`, `doctor`: the stack and this machine. Part of the command line of `hora.cli.app`."""

import sys
from typing import Annotated

import typer

from hora.cli.exit_codes import ERROR
from hora.cli.options import AsJson
from hora.cli.output import display, print_json, tell

app = typer.Typer()


@app.command()
def up(
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return when the stack is ready.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start the stack on this machine: database, broker, API and a worker."""
    from hora.stack.local import start

    url = start(detach=detach, say=lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True))
    if as_json and url:
        print_json({"url": url})


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the stack on this machine; jobs that run are saved and go on when it is up again."""
    from hora.stack.local import stop

    done = stop()
    if as_json:
        print_json({"stopped": done})
    for line in [] if as_json else done or ["nothing was running"]:
        tell(line)


@app.command()
def keys(
    folder: Annotated[str, typer.Argument(envvar="HORA_SSH_DIR", help="Where to; HORA_SSH_DIR of every host.")],
    as_json: AsJson = False,
) -> None:
    """Make the keys by which the hosts of one stack know each other; give each the same ones."""
    from pathlib import Path

    from hora.stack.keys import make_keys

    made = [str(file) for file in make_keys(Path(folder))]
    if as_json:
        print_json({"items": made})
    for line in [] if as_json else made:
        tell(line)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine and its stack, and say what to do."""
    from dataclasses import asdict

    from hora.doctor.checks import examine
    from hora.render.jobs import findings_table

    found = list(examine())
    print_json({"items": [asdict(one) for one in found]}) if as_json else display(findings_table(found))
    if any(one.level == "fail" for one in found):
        raise typer.Exit(ERROR)
