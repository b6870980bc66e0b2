"""`hora probe`: finds a batch size and a learning rate by short runs.

Part of the command line of `hora.cli.app`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.exit_codes import NOT_FINISHED, OUTCOME
from hora.cli.options import AsJson, Changes, Dataset, Gpus, Model, SpecFile, Timeout
from hora.cli.output import console_of, display, print_json, print_line, say, tell
from hora.cli.spec_command import SpecCommand, check_is_given, spec_options

if TYPE_CHECKING:
    from hora.service import Service

app = typer.Typer()


@app.command(cls=SpecCommand)
def probe(
    file: SpecFile = None,
    dataset: Dataset = None,
    model: Model = None,
    batch_size: Annotated[int | None, typer.Option(help="The batch size that the learning rate is for.")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The learning rate for --batch-size. It is scaled with the batch.")
    ] = None,
    gpus: Gpus = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return as soon as the probe is submitted.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Try a spec with growing batches, and propose a batch size and a learning rate."""
    options = spec_options(locals())
    from hora.cli.checking import check_spec
    from hora.cli.spec_code import pack_code
    from hora.cli.spec_files import read_document, with_options
    from hora.connection import connect

    check_is_given(file, dataset, changes)
    document = read_document(file) if file else {}
    is_probe = document.get("probe") is not None  # in the file: then the proposed command removes it
    document = with_options(document if is_probe else {**document, "probe": {}}, options, changes)
    pack_code(document)  # a script cannot be probed, and the answer names that field, not a wrong digest
    check_spec(document)
    with connect() as client:
        job = client.submit(document)
        if no_wait:
            print_json(job) if as_json else tell(job["id"])
            return
        # Standard input cannot be read again, so then a clone of the probe is proposed.
        arguments = None if file == "-" else as_given(file, options, changes, is_probe=is_probe)
        _watch(client, job["id"], arguments, as_json, timeout)


def as_given(
    file: str | None, options: "Mapping[str, str | int | float | None]", changes: "Sequence[str]", *, is_probe: bool
) -> list[str]:
    """The arguments for `hora submit` that train the probed spec, without those of the probe itself."""
    given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value is not None]
    given += [("--set", change) for change in changes if re.split("[.=]", change)[0].strip() != "probe"]
    given += [("--set", "probe=null")] if is_probe else []
    return [*([file] if file else []), *(word for pair in given for word in pair)]


def _watch(client: "Service", job_id: str, arguments: list[str] | None, as_json: bool, timeout_s: float | None) -> None:
    """Watch a probe to its end, show its result, and exit with its code."""
    from hora.cli.follow import live_bar, plain_lines
    from hora.render.jobs import status
    from hora.render.probe import probe_rows
    from hora.render.tables import facts
    from hora.render.text import plain

    console = console_of()
    try:
        if as_json:
            job = client.wait(job_id, on_update=print_line, timeout_s=timeout_s)
        else:
            with live_bar(console) if console.is_terminal else plain_lines(client, console) as watch:
                job = client.wait(job_id, on_update=watch, timeout_s=timeout_s, period_s=0.25)
    except KeyboardInterrupt:
        say("")
        say(f"The probe continues. Come back with `hora show {job_id} --wait`; stop it with `hora cancel {job_id}`.")
        raise typer.Exit(NOT_FINISHED) from None
    error = plain(job["error"]) if job.get("error") else None
    rows = {"job": job["id"], "status": status(job), "error": error, **probe_rows(job, arguments)}
    if not as_json:
        display(facts(rows))
    raise typer.Exit(OUTCOME[job["status"]])
