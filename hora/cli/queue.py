"""`hora queue`: the jobs that wait, and whose turn it is. Part of the command line of `hora.cli.app`."""

from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import AsJson, Limit
from hora.cli.output import display, print_json

if TYPE_CHECKING:
    from hora.errors import Json

app = typer.Typer()


@app.command("queue")
def show_queue(
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only jobs of this user.")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this project.")] = None,
    limit: Limit = 50,
    watch: Annotated[bool, typer.Option("--watch", help="Update the list every two seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the queue: whose turn it is, which job is next, and why each waits."""
    from hora.cli.watch import watch_table
    from hora.connection import connect
    from hora.render.queue import queue_view

    with connect() as client:

        def fetch() -> "Json":
            return client.queue(owner=owner, project=project, limit=limit)

        if watch:
            watch_table(lambda: queue_view(fetch()), as_json)
        else:
            print_json(fetch()) if as_json else display(queue_view(fetch()))
