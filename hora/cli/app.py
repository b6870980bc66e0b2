"""The command `hora`. Its exit code says how the command, the job or the study ended.

    0 succeeded, or done     2 usage, or an invalid spec     100 failed      101 not finished
    102 not found            103 cancelled                   1 everything else     130 interrupted, except while waiting

Results go to standard output, everything else to standard error. With `--json` standard output is the API's own JSON
and nothing else. If the reader of the output goes away, the command ends silently. The commands are in modules of their
own (`hora.cli.commands`), which import what they use when they run.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hora.cli.commands import CommandGroup
from hora.cli.exit_codes import ERROR
from hora.cli.output import say
from hora.connection import use_profile

_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # its reader or its disk says so

app = typer.Typer(
    cls=CommandGroup,
    help="Train deep-learning models with Horovod: submit jobs, watch them, see how they scale.",
    epilog="The documentation is at /help of every service, such as http://127.0.0.1:8400/help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        print(version("hora"))
        raise typer.Exit


@app.callback()
def common_options(
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Use this profile of the configuration file. local: the stack on this machine."
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train deep-learning models with Horovod: submit jobs, watch them, see how they scale."""
    del version
    use_profile(profile)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may lack a character of a name
    try:
        code = _run(arguments)
        if sys.stdout is not None:  # the caller may have closed it
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        if error.errno != errno.EPIPE:
            say(f"The output cannot be written: {error.strerror}.")
        # The rest of the buffer goes nowhere, so that Python does not complain about it when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        app(arguments, prog_name="hora")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ERROR
    except Exception as error:
        from hora.cli.explain import explain

        code, lines = explain(error)
        for line in lines:
            say(line)
        return code
    return 0
