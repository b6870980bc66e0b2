"""The command `hora`. Its exit code says how a job, or a study, ended.

    0 succeeded, or done     2 usage, or an invalid spec     100 failed      101 not finished
    102 not found            103 cancelled                   1 everything else

Results go to standard output, everything else to standard error. With `--json` standard output is the API's own
JSON and nothing else. The commands are in modules of their own, `hora.cli_*`, which import what they use when they run.
"""

from collections.abc import Sequence

import typer

from hora import cli_hosts, cli_jobs, cli_probe, cli_records, cli_stack, cli_studies
from hora.errors import HoraError
from hora.explain import ERROR, explain
from hora.home import StackError
from hora.output import say

app = typer.Typer(
    help="Train deep-learning models with Horovod: submit a spec, watch it, see whether it scaled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (cli_stack.app, cli_jobs.app, cli_probe.app, cli_records.app, cli_studies.app):
    app.add_typer(commands)  # without a name: its commands are commands of `hora`
app.add_typer(cli_studies.studies, name="studies")
app.add_typer(cli_hosts.app, name="hosts")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
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
