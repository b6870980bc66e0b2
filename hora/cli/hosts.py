"""`hora hosts`: the hosts and their slots. Part of the command line of `hora.cli.app`."""

from typing import Annotated

import typer

from hora.cli.options import AsJson, HostName
from hora.cli.output import display, print_json, print_list, tell

app = typer.Typer()
group = typer.Typer(help="List hosts and their slots. Show, drain, undrain and forget a host.")
app.add_typer(group, name="hosts")


@group.callback(invoke_without_command=True)
def hosts(context: typer.Context, as_json: AsJson = False) -> None:
    """List hosts and their slots. Show, drain, undrain and forget a host."""
    from hora.connection import connect
    from hora.render.hosts import hosts_table

    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        found = client.hosts()
    print_list(
        found,
        hosts_table,
        nothing="No hosts. Start a worker on each: `hora up -d` starts one here.",
        as_json=as_json,
    )


@group.command()
def show(name: HostName, as_json: AsJson = False) -> None:
    """Show one host: its hardware, the jobs on its slots, and the load of its GPUs. Of a pool: its nodes in Slurm."""
    from hora.connection import connect
    from hora.render.hosts import host_facts, nodes_table, slots_table

    with connect() as client:
        host = client.host(name)
        if as_json:
            print_json(host)
            return
        lately = client.host_utilization(name, minutes=1)
    display(host_facts(host, lately))
    display("")
    if host.get("nodes") is not None:
        display(nodes_table(host))
        display("")
    display(slots_table(host))


@group.command()
def drain(
    name: HostName,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Also move its jobs: they save, and continue on other hosts.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give a host no new jobs. Jobs that run there continue."""
    from hora.connection import connect

    with connect() as client:
        host = client.drain(name, requeue=requeue)
    jobs = {slot["job_id"] for slot in host["slots"] if slot["job_id"]}
    on_it = "no job is on it" if not jobs else f"still on it: {', '.join(sorted(jobs))}"
    print_json(host) if as_json else tell(f"{host['name']} is drained; {on_it}")


@group.command()
def undrain(name: HostName, as_json: AsJson = False) -> None:
    """Give a host new jobs again."""
    from hora.connection import connect

    with connect() as client:
        host = client.undrain(name)
    print_json(host) if as_json else tell(f"{host['name']} takes jobs again")


@group.command()
def forget(name: HostName, as_json: AsJson = False) -> None:
    """Remove a lost host. It registers again if it comes back."""
    from hora.connection import connect

    with connect() as client:
        client.forget_host(name)
    print_json({"forgotten": name}) if as_json else tell(f"{name} is forgotten")
