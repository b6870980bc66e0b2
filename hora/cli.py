"""The command `hora`. Its exit code says how a job ended.

    0 succeeded, or done     2 usage, or an invalid spec     100 failed      101 not finished
    102 not found            103 cancelled                   1 everything else

Results go to standard output, everything else to standard error. With `--json` standard output is the API's own
JSON and nothing else.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from hora import cli_hosts
from hora.client import Client, HoraError, Json
from hora.explain import ERROR, NOT_FINISHED, OUTCOME, explain
from hora.home import StackError
from hora.output import console_of, display, print_json, say

app = typer.Typer(
    help="Train deep-learning models with Horovod: submit a spec, watch it, see whether it scaled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cli_hosts.app, name="hosts")

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Changes = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="Set any field, such as dataset.validation=0.2.")
]


@app.command()
def up(
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return when the stack is ready.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start the stack on this machine: database, broker, API and a worker."""
    from hora.local import start

    url = start(detach=detach, say=lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True))
    if as_json and url:
        print_json({"url": url})


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the stack on this machine; jobs that run are saved and go on when it is up again."""
    from hora.local import stop

    done = stop()
    if as_json:
        print_json({"stopped": done})
    for line in [] if as_json else done or ["nothing was running"]:
        print(line)


@app.command()
def submit(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="A spec, YAML or JSON; - reads it.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A registered dataset, or a path or URL below the service's data roots.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The network to train.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in a batch of one GPU.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The optimizer's rate.")] = None,
    gpus: Annotated[int | None, typer.Option(help="How many GPUs, one rank each.")] = None,
    epochs: Annotated[int | None, typer.Option(help="How many passes over the data at most.")] = None,
    changes: Changes = [],  # noqa: B006 - typer copies it
    wait: Annotated[bool, typer.Option("--wait", help="Watch the job to its end.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Wait no longer than this.")] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a training job."""
    from hora.connection import connect
    from hora.submission import read_document, validated, with_options

    if file is None and dataset is None and not changes:
        raise typer.BadParameter("give a FILE, or at least --dataset")
    options = {
        "dataset": dataset,
        "model": model,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "gpus": gpus,
        "epochs": epochs,
    }
    document = validated(with_options(read_document(file) if file else {}, options, changes))
    with connect() as client:
        job = client.submit(document)
        if wait:
            _watch(client, job["id"], as_json, timeout)
        elif as_json:
            print_json(job)
        else:
            print(job["id"])
            say(f"Watch it with `hora show {job['id']} --wait`.")


@app.command()
def clone(job_id: JobId, changes: Changes = [], as_json: AsJson = False) -> None:  # noqa: B006 - typer copies it
    """Submit a job's spec once more, with changes."""
    from hora.connection import connect
    from hora.submission import with_options

    with connect() as client:
        job = client.clone(job_id, with_options({}, {}, changes))
    print_json(job) if as_json else print(job["id"])


@app.command("ls")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="Only jobs of this status.")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    label: Annotated[str | None, typer.Option(metavar="K:V", help="Only jobs with this label.")] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    from itertools import islice

    from hora.connection import connect
    from hora.render import jobs_table

    with connect() as client:
        page = min(limit, 100)
        jobs = list(islice(client.jobs(status=status, name=name, label=label, page_size=page), limit))
    print_json({"items": jobs}) if as_json else display(jobs_table(jobs))


@app.command()
def show(
    job_id: JobId,
    wait: Annotated[bool, typer.Option("--wait", help="Watch the job to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one job."""
    from hora.connection import connect
    from hora.render import job_details

    with connect() as client:
        if wait:
            _watch(client, job_id, as_json, None)
        job = client.job(job_id)
        if as_json:
            print_json(job)
            return
        attempts = client.attempts(job_id)
        epochs = client.metrics(job_id, axis="epoch") if attempts else []
    display(job_details(job, attempt=attempts[-1] if attempts else None, epochs=epochs))


@app.command()
def logs(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends.")] = False,
    rank: Annotated[int | None, typer.Option(min=-1, help="Only this rank; -1 is the launcher.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the ranks of a job printed. With --json, one object a line."""
    from hora.connection import connect
    from hora.follow import log_lines
    from hora.phrases import plain

    try:
        with connect() as client:
            for line in log_lines(client, job_id, rank=rank, follow=follow):
                who = "launcher" if line["rank"] < 0 else line["rank"]
                print(json.dumps(line) if as_json else f"[{who}] {plain(line['text'])}", flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit(NOT_FINISHED) from None


@app.command()
def metrics(
    job_id: JobId,
    name: Annotated[str | None, typer.Option(help="Only this metric, such as samples_per_s.")] = None,
    as_json: AsJson = False,
) -> None:
    """Plot a job's losses and accuracies over its epochs."""
    from hora.connection import connect
    from hora.plot import plots

    with connect() as client:
        series = client.metrics(job_id, name=name, axis="epoch")
    if as_json:
        print_json({"series": series})
        return
    console = console_of()
    colour = console.is_terminal and not console.no_color
    drawn = plots(series, width=min(console.width, 100), colour=colour, names=[name] if name else [])
    for plot in drawn:
        print(plot, end="\n\n")
    if not drawn:
        say("No epoch has ended yet.")


@app.command()
def cancel(job_id: JobId, as_json: AsJson = False) -> None:
    """Stop a job; it ends within seconds."""
    _ask(job_id, Client.cancel, as_json, {"cancelled": "cancelled"}, "is being cancelled")


@app.command()
def pause(job_id: JobId, as_json: AsJson = False) -> None:
    """Let a job wait; one that runs saves and goes back to the queue."""
    _ask(job_id, Client.pause, as_json, {"queued": "paused"}, "saves, and is paused then")


@app.command()
def resume(job_id: JobId, as_json: AsJson = False) -> None:
    """Let a paused job go on from where it was saved."""
    _ask(job_id, Client.resume, as_json, {"queued": "waits for its slots"}, "goes on")


def _ask(job_id: str, ask: Callable[[Client, str], Json], as_json: bool, told: dict[str, str], otherwise: str) -> None:
    """Ask something of a job, and tell what comes of it by its status."""
    from hora.connection import connect

    with connect() as client:
        job = ask(client, job_id)
    print_json(job) if as_json else print(f"{job['id']} {told.get(job['status'], otherwise)}")


@app.command()
def keys(
    folder: Annotated[str, typer.Argument(envvar="HORA_SSH_DIR", help="Where to; HORA_SSH_DIR of every host.")],
    as_json: AsJson = False,
) -> None:
    """Make the keys by which the hosts of one stack know each other; give each the same ones."""
    from pathlib import Path

    from hora.keys import make_keys

    made = [str(file) for file in make_keys(Path(folder))]
    if as_json:
        print_json({"items": made})
    for line in [] if as_json else made:
        print(line)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine and its stack, and say what to do."""
    from dataclasses import asdict

    from hora.doctor import examine
    from hora.render import findings_table

    found = list(examine())
    print_json({"items": [asdict(one) for one in found]}) if as_json else display(findings_table(found))
    if any(one.level == "fail" for one in found):
        raise typer.Exit(ERROR)


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


def _watch(client: Client, job_id: str, as_json: bool, timeout_s: float | None) -> None:
    """Watch a job to its end, show what it came to, and leave with its exit code."""
    from hora.follow import follow
    from hora.render import results_table

    console = console_of(stderr=as_json)
    try:
        job: Json = follow(client, job_id, console, timeout_s=timeout_s)
    except KeyboardInterrupt:
        say(f"\nThe job goes on. Come back with `hora show {job_id} --wait`; stop it with `hora cancel {job_id}`.")
        raise typer.Exit(NOT_FINISHED) from None
    print_json(job) if as_json else display(results_table(job, f"{client.url}/v1/jobs/{job_id}"))
    raise typer.Exit(OUTCOME[job["status"]])
