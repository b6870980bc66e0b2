"""`hora usage`: GPU-hours, jobs and cost of past days and months. Part of the command line of `hora.cli.app`."""

from typing import Annotated

import typer

from hora.cli.options import AsJson
from hora.cli.output import display, print_json, say
from hora.cli.projects import project_names
from jobs.views.usage import Period, UsageKey

app = typer.Typer()

_DEFAULT = "By default the last 12 months or 30 days."


@app.command("usage")
def show_usage(
    by: Annotated[
        list[UsageKey],
        typer.Option("--by", metavar="KEY", help="project, user, host or device. Repeat it for a second one."),
    ] = [UsageKey.PROJECT],  # noqa: B006
    first_day: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help=f"The first day, such as 2026-10-01. {_DEFAULT}")
    ] = None,
    last_day: Annotated[str | None, typer.Option("--until", metavar="DAY", help="The last day. It counts too.")] = None,
    period: Annotated[Period, typer.Option(help="What a row adds up, in UTC.")] = Period.MONTH,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this project.", autocompletion=project_names)
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only jobs of this user.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for spreadsheets and nothing else.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how many GPU-hours were used in past months or days, by whom, and what they cost."""
    from hora.connection import connect
    from hora.render.text import plain
    from hora.render.usage import usage_table
    from hora.service.usage import UsageQuery

    if as_csv and as_json:
        raise typer.BadParameter("use one of --csv and --json", param_hint="--csv")
    query = UsageQuery(by=by, from_=first_day, until=last_day, period=period, project=project, user=user)
    with connect() as client:
        if as_csv:
            print(client.usage_csv(**query), end="")
            return
        report = client.usage(**query)
    if as_json:
        print_json(report)
    elif report["items"]:
        display(usage_table(report))
    else:
        say(f"Nobody used slots from {plain(report['first_day'])} to {plain(report['last_day'])}.")
