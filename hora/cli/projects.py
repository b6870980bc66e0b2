"""`hora project`: projects, their quotas and members. Part of the command line of `hora.cli.app`."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.completion import names
from hora.cli.options import AsJson
from hora.cli.output import display, print_json, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hora.cli.completion import Proposal
    from hora.errors import Json
    from hora.service import Service

app = typer.Typer()
group = typer.Typer(help="Projects: what jobs are counted under, with quotas and members.", no_args_is_help=True)
app.add_typer(group, name="project")


def _projects(service: "Service") -> "Iterable[Proposal]":
    return ((project["name"], project["description"]) for project in service.projects())


project_names = names(_projects)
ProjectName = Annotated[str, typer.Argument(metavar="NAME", help="The project.", autocompletion=project_names)]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
Description = Annotated[str | None, typer.Option(help="What it is for, in a line.")]
Closed = Annotated[bool | None, typer.Option("--closed/--open", help="For its members alone, or for everybody.")]
MaxSlots = Annotated[str | None, typer.Option(metavar="N", help="Slots at once; none: no limit.")]
MaxQueued = Annotated[str | None, typer.Option(metavar="N", help="Jobs in the queue; none: no limit.")]
MaxGpuHours = Annotated[str | None, typer.Option(metavar="H", help="GPU-hours a calendar month; none: no limit.")]


@group.command("ls")
def list_projects(as_json: AsJson = False) -> None:
    """List the projects, each with what counts against its quotas now."""
    from hora.connection import connect
    from hora.render.projects import projects_table

    with connect() as client:
        found = list(client.projects())
    print_json({"items": found}) if as_json else display(projects_table(found))


@group.command()
def show(name: ProjectName, as_json: AsJson = False) -> None:
    """Show one project: its quotas and what counts against them, and its members."""
    from hora.connection import connect

    with connect() as client:
        _tell(client.project(name), as_json)


@group.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and hyphens.")],
    description: Description = None,
    closed: Closed = None,
    max_slots: MaxSlots = None,
    max_queued: MaxQueued = None,
    max_gpu_hours: MaxGpuHours = None,
    as_json: AsJson = False,
) -> None:
    """Create a project (admins)."""
    from hora.connection import connect

    document = _document(description, closed, max_slots, max_queued, max_gpu_hours)
    with connect() as client:
        _tell(client.create_project({"name": name, **document}), as_json)


@group.command("set")
def change(
    name: ProjectName,
    description: Description = None,
    closed: Closed = None,
    max_slots: MaxSlots = None,
    max_queued: MaxQueued = None,
    max_gpu_hours: MaxGpuHours = None,
    as_json: AsJson = False,
) -> None:
    """Change a project (admins); nothing that runs is stopped."""
    from hora.connection import connect

    changes = _document(description, closed, max_slots, max_queued, max_gpu_hours)
    if not changes:
        raise typer.BadParameter("give at least one option")
    with connect() as client:
        _tell(client.change_project(name, changes), as_json)


@group.command()
def add(name: ProjectName, user: User, as_json: AsJson = False) -> None:
    """Let a user submit to a project and steer its jobs (admins)."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        project = client.add_member(name, user)
    print_json(project) if as_json else tell(f"{plain(user)} is a member of {plain(name)}")


@group.command()
def remove(name: ProjectName, user: User, as_json: AsJson = False) -> None:
    """Let a user be no member of a project any more (admins)."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        client.remove_member(name, user)
        told = client.project(name) if as_json else None
    print_json(told) if told else tell(f"{plain(user)} is no member of {plain(name)}")


@group.command()
def archive(
    name: ProjectName,
    undo: Annotated[bool, typer.Option("--undo", help="Let it take jobs again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a project take no new jobs (admins); those that it has go on."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        project = client.change_project(name, {"is_archived": not undo})
    print_json(project) if as_json else tell(f"{plain(name)} {'takes jobs again' if undo else 'is archived'}")


def _tell(project: "Json", as_json: bool) -> None:
    from hora.render.projects import project_facts

    print_json(project) if as_json else display(project_facts(project))


def _document(
    description: str | None,
    closed: bool | None,
    max_slots: str | None,
    max_queued: str | None,
    max_gpu_hours: str | None,
) -> dict[str, Any]:
    """What of a project was given as options."""
    found: dict[str, Any] = {} if description is None else {"description": description}
    if closed is not None:
        found["is_open"] = not closed
    limits = (("max_slots", max_slots, int), ("max_queued", max_queued, int), ("max_gpu_hours", max_gpu_hours, float))
    return found | {name: _limit(name, text, kind) for name, text, kind in limits if text is not None}


def _limit(name: str, text: str, kind: type[int] | type[float]) -> float | None:
    try:
        value = None if text == "none" else kind(text)
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        option = f"--{name.replace('_', '-')}"
        raise typer.BadParameter(f"{text!r} is no number; none lifts the limit", param_hint=option)
    return value
