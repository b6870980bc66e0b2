"""What the command line shows of projects: tables, from the API's JSON. Pure."""

from collections.abc import Iterable

from rich.table import Table

from hora.errors import Json
from hora.render.tables import facts, table_of
from hora.render.text import amount, plain


def projects_table(projects: Iterable[Json]) -> Table:
    """One line a project: what counts against its quotas, what they are, and what else applies to its jobs."""
    table = table_of("PROJECT", "SLOTS>", "QUEUED>", "GPU-HOURS>", "GB>?", "MEMBERS>?", "", "DESCRIPTION…")
    for project in projects:
        table.add_row(
            plain(project["name"]),
            *_figures(project),
            str(len(project["members"])),
            ", ".join(filter(None, (_notes(project), *_rules(project)))),
            plain(project["description"] or "-"),
        )
    return table


def project_facts(project: Json) -> Table:
    """All of one project."""
    slots, queued, gpu_hours, storage = _figures(project)
    renews_at = project["usage"]["renews_at"][:10]
    return facts(
        {
            "project": plain(project["name"]),
            "description": plain(project["description"]) if project["description"] else None,
            "status": _notes(project) or "open to everybody",
            "slots": f"{slots} leased",
            "queue": f"{queued} jobs",
            "GPU-hours": f"{gpu_hours} this month, which ends at {plain(renews_at)} 00:00 UTC",
            "cost": None if project["usage"].get("cost") is None else f"{amount(project['usage']['cost'])} this month",
            "storage": f"{storage} GB of checkpoints and artifacts",
            "priority": _ceiling(project.get("max_priority")),
            "share": _share(project),
            "idle slots": _idle(project.get("idle")),
            "members": ", ".join(map(plain, project["members"])) or "none",
        }
    )


def _rules(project: Json) -> list[str]:
    """In a few words: priority up to 60, share 2, idle: pause."""
    most, share, idle = project.get("max_priority"), project.get("share", 1), project.get("idle")
    return [
        *([] if most is None else [f"priority up to {most}"]),
        *([] if share == 1 else [f"share {share:g}"]),
        *([f"idle: {plain(idle['action'])}"] if idle else []),
    ]


def _ceiling(most: int | None) -> str | None:
    return None if most is None else f"up to {most}; only admins go above"


def _share(project: Json) -> str | None:
    """How the slots are shared. An older service does not say it."""
    share = project.get("share")
    return None if share is None else f"{share:g} (1 is the default)"


def _idle(idle: Json | None) -> str | None:
    """What is done when nobody uses the slots of its jobs: below 5 % for 1800 s: stop."""
    return f"below {idle['below']:g} % for {idle['for_s']:g} s: {plain(idle['action'])}" if idle else None


def _figures(project: Json) -> tuple[str, str, str, str]:
    usage = project["usage"]
    return (
        _of(usage["slots"], project["max_slots"]),
        _of(usage["queued"], project["max_queued"]),
        _of(usage["gpu_hours"], project["max_gpu_hours"]),
        _of(usage["storage_gb"], project["max_storage_gb"]),
    )


def _of(used: float, most: float | None) -> str:
    return _number(used) if most is None else f"{_number(used)} of {_number(most)}"


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _notes(project: Json) -> str:
    notes = ["archived" if project["archived_at"] else "", "" if project["is_open"] else "members only"]
    return ", ".join(filter(None, notes))
