"""`hora project`: projects, their quotas and members. Part of the command line of `hora.cli.app`."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hora.cli.completion import from_service
from hora.cli.options import AsJson
from hora.cli.output import display, print_json, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hora.cli.completion import Proposal
    from hora.errors import Json
    from hora.service import Service

app = typer.Typer()
group = typer.Typer(help="Projects: quotas and members for groups of jobs.", no_args_is_help=True)
app.add_typer(group, name="project")


def _projects(service: "Service") -> "Iterable[Proposal]":
    return ((project["name"], project["description"]) for project in service.projects())


project_names = from_service(_projects)
ProjectName = Annotated[str, typer.Argument(metavar="NAME", help="The project.", autocompletion=project_names)]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
NewMember = Annotated[
    str, typer.Argument(metavar="USER", help="The user's name. `hora token create NAME --user USER` makes a user.")
]
Description = Annotated[str | None, typer.Option(help="A description in one line.")]
Closed = Annotated[bool | None, typer.Option("--closed/--open", help="Let only members submit to it, or everybody.")]
MaxSlots = Annotated[str | None, typer.Option(metavar="N", help="The most slots at once. none: no limit.")]
MaxQueued = Annotated[str | None, typer.Option(metavar="N", help="The most jobs in the queue. none: no limit.")]
MaxGpuHours = Annotated[
    str | None, typer.Option(metavar="H", help="The most GPU-hours in a calendar month. none: no limit.")
]
MaxStorage = Annotated[
    str | None, typer.Option(metavar="GB", help="What its jobs may keep on all hosts. none: no limit.")
]
MaxPriority = Annotated[
    str | None, typer.Option(metavar="P", help="The priority above which only admins may go. none: not set.")
]
Share = Annotated[
    str | None,
    typer.Option(
        metavar="X",
        help="How the slots are shared between projects that have work: 2 is twice as much as 1, the default.",
    ),
]
Idle = Annotated[
    str | None,
    typer.Option(
        metavar="K=V,...",
        help="What to do when nobody uses the slots of its jobs: below=5,for_s=1800,action=warn, pause or stop."
        " none: nothing.",
    ),
]

_LIMITS: dict[str, type[int] | type[float]] = {
    "max_slots": int, "max_queued": int, "max_gpu_hours": float, "max_storage_gb": float, "max_priority": int,
}  # fmt: skip


@group.command("ls")
def list_projects(as_json: AsJson = False) -> None:
    """List the projects with their quotas and present use."""
    from hora.connection import connect
    from hora.render.projects import projects_table

    with connect() as client:
        found = list(client.projects())
    print_json({"items": found}) if as_json else display(projects_table(found))


@group.command()
def show(name: ProjectName, as_json: AsJson = False) -> None:
    """Show one project: its quotas, its present use, and its members."""
    from hora.connection import connect

    with connect() as client:
        _show(client.project(name), as_json)


@group.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and hyphens.")],
    description: Description = None,
    closed: Closed = None,
    max_slots: MaxSlots = None,
    max_queued: MaxQueued = None,
    max_gpu_hours: MaxGpuHours = None,
    max_storage_gb: MaxStorage = None,
    max_priority: MaxPriority = None,
    share: Share = None,
    idle: Idle = None,
    as_json: AsJson = False,
) -> None:
    """Create a project. For admins."""
    from hora.connection import connect

    document = _document(
        description, closed, idle, share, max_slots=max_slots, max_queued=max_queued, max_gpu_hours=max_gpu_hours,
        max_storage_gb=max_storage_gb, max_priority=max_priority,
    )  # fmt: skip
    with connect() as client:
        _show(client.create_project({"name": name, **document}), as_json)


@group.command("set")
def change(
    name: ProjectName,
    description: Description = None,
    closed: Closed = None,
    max_slots: MaxSlots = None,
    max_queued: MaxQueued = None,
    max_gpu_hours: MaxGpuHours = None,
    max_storage_gb: MaxStorage = None,
    max_priority: MaxPriority = None,
    share: Share = None,
    idle: Idle = None,
    as_json: AsJson = False,
) -> None:
    """Change a project. Running jobs are not stopped. For admins."""
    from hora.connection import connect

    changes = _document(
        description, closed, idle, share, max_slots=max_slots, max_queued=max_queued, max_gpu_hours=max_gpu_hours,
        max_storage_gb=max_storage_gb, max_priority=max_priority,
    )  # fmt: skip
    if not changes:
        raise typer.BadParameter("give at least one option")
    with connect() as client:
        _show(client.change_project(name, changes), as_json)


@group.command()
def add(name: ProjectName, user: NewMember, as_json: AsJson = False) -> None:
    """Add a user to a project. Members submit to it and control its jobs. For admins."""
    from hora.connection import connect
    from hora.errors import NotFound
    from hora.render.text import plain

    with connect() as client:
        try:
            project = client.add_member(name, user)
        except NotFound as error:
            if error.type.endswith("user-not-found"):
                hint = f"A user exists as soon as they have a token: `hora token create NAME --user {user}`."
                error.detail = f"{error.detail}. {hint}"
            raise
    print_json(project) if as_json else tell(f"{plain(user)} is a member of {plain(name)}")


@group.command()
def remove(name: ProjectName, user: User, as_json: AsJson = False) -> None:
    """Remove a member from a project. For admins."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        client.remove_member(name, user)
        project = client.project(name) if as_json else None
    print_json(project) if project else tell(f"{plain(user)} is no longer a member of {plain(name)}")


@group.command()
def archive(
    name: ProjectName,
    undo: Annotated[bool, typer.Option("--undo", help="Undo this: the project takes jobs again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Archive a project: it takes no new jobs, and its jobs continue. For admins."""
    from hora.connection import connect
    from hora.render.text import plain

    with connect() as client:
        project = client.change_project(name, {"is_archived": not undo})
    print_json(project) if as_json else tell(f"{plain(name)} {'takes jobs again' if undo else 'is archived'}")


def _show(project: "Json", as_json: bool) -> None:
    from hora.render.projects import project_facts

    print_json(project) if as_json else display(project_facts(project))


def _document(
    description: str | None,
    closed: bool | None,
    idle: str | None = None,
    share: str | None = None,
    **limits: str | None,
) -> dict[str, Any]:
    """The fields of a project that were given as options."""
    fields: dict[str, Any] = {} if description is None else {"description": description}
    if closed is not None:
        fields["is_open"] = not closed
    if idle is not None:
        fields["idle"] = _idle(idle)
    if share is not None:
        fields["share"] = _number("share", share, float, otherwise="1 is the default")
    return fields | {name: _limit(name, text, _LIMITS[name]) for name, text in limits.items() if text is not None}


def _idle(text: str) -> dict[str, Any] | None:
    """The fields of `idle` in below=5,for_s=1800,action=stop. The service checks them."""
    if text == "none":
        return None
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, sign, value = (each.strip() for each in part.partition("="))
        if not (name and sign and value):
            message = f"{part.strip()!r} is not NAME=VALUE; write below=5,for_s=1800,action=stop, or `none`"
            raise typer.BadParameter(message, param_hint="--idle")
        fields[name] = _number_or_text(value)
    return fields


def _number_or_text(value: str) -> float | str:
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value


def _limit(name: str, text: str, kind: type[int] | type[float]) -> float | None:
    return None if text == "none" else _number(name, text, kind, otherwise="`none` removes the limit")


def _number(name: str, text: str, kind: type[int] | type[float], *, otherwise: str) -> float:
    try:
        value: float = kind(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a number; {otherwise}", param_hint=f"--{name.replace('_', '-')}")
    return value
