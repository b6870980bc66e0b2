"""`hora hosts`: the hosts, and what an operator asks of them. Part of the command line of `hora.cli`."""

from typing import Annotated

import typer

from hora.output import display, print_json

app = typer.Typer(help="List the hosts and their slots; drain, undrain and forget them.")

HostName = Annotated[str, typer.Argument(metavar="NAME", help="The host.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.callback(invoke_without_command=True)
def hosts(context: typer.Context, as_json: AsJson = False) -> None:
    """List the hosts and their slots; drain, undrain and forget them."""
    from hora.connection import connect
    from hora.render import hosts_table

    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        found = client.hosts()
    print_json({"items": found}) if as_json else display(hosts_table(found))


@app.command()
def drain(
    name: HostName,
    requeue: Annotated[bool, typer.Option("--requeue", help="Also let its jobs save and go elsewhere.")] = False,
    as_json: AsJson = False,
) -> None:
    """Place nothing new on a host; what runs there goes on."""
    from hora.connection import connect

    with connect() as client:
        host = client.drain(name, requeue=requeue)
    jobs = {slot["job_id"] for slot in host["slots"] if slot["job_id"]}
    told = "no job is on it" if not jobs else f"still there: {', '.join(sorted(jobs))}"
    print_json(host) if as_json else print(f"{host['name']} is drained; {told}")


@app.command()
def undrain(name: HostName, as_json: AsJson = False) -> None:
    """Let jobs be placed on a host again."""
    from hora.connection import connect

    with connect() as client:
        host = client.undrain(name)
    print_json(host) if as_json else print(f"{host['name']} takes jobs")


@app.command()
def forget(name: HostName, as_json: AsJson = False) -> None:
    """Remove a host that is lost; it registers anew if it comes back."""
    from hora.connection import connect

    with connect() as client:
        client.forget_host(name)
    print_json({"forgotten": name}) if as_json else print(f"{name} is forgotten")
