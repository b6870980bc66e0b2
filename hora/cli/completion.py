"""What a shell proposes when a person presses Tab: ids and names that the service knows. Used by `hora.cli.options`."""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hora.service import Service

Proposal = tuple[str, str]  # a name, and what a shell that can shows beside it
PATIENCE_S = 1.0  # a person at a prompt waits no longer
_MOST = 100  # of the newest, one page
# zsh evaluates what it is told as a command, within quotes that a backslash in a job's name would take apart.
_FOR_SHELLS = re.compile(r"[\\`$\"']")


def names(ask: "Callable[[Service], Iterable[Proposal]]") -> Callable[[typer.Context, str], list[Proposal]]:
    """A completion that asks the service; nothing is proposed where it is slow, away or unwilling."""

    def complete(context: typer.Context, incomplete: str) -> list[Proposal]:
        found: list[Proposal] = []

        def look() -> None:
            try:
                from hora.connection import connect, use_profile

                use_profile(context.find_root().params.get("profile"))  # known to this thread alone
                with connect(timeout_s=PATIENCE_S) as service:
                    found.extend(_proposed(ask(service), incomplete))
            except Exception:  # noqa: S110 - there is nobody to tell
                pass

        asking = Thread(target=look, daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
        return [] if asking.is_alive() else found

    return complete


def _proposed(known: Iterable[Proposal], incomplete: str) -> Iterable[Proposal]:
    from rich.markup import escape

    from hora.render.text import plain

    for text, about in islice(known, _MOST):
        if text.startswith(incomplete) and text == plain(text) and " " not in text:
            yield text, escape(_FOR_SHELLS.sub("_", plain(about)))


def _jobs(service: "Service") -> Iterable[Proposal]:
    return ((job["id"], f"{job['name']}, {job['status']}") for job in service.jobs(page_size=_MOST))


def _studies(service: "Service") -> Iterable[Proposal]:
    return ((study["id"], study["name"]) for study in service.studies(page_size=_MOST))


def _hosts(service: "Service") -> Iterable[Proposal]:
    return ((host["name"], f"{len(host['slots'])} slots") for host in service.hosts())


job_ids, study_ids, host_names = names(_jobs), names(_studies), names(_hosts)


def statuses(incomplete: str) -> list[str]:
    """The statuses of a job."""
    from jobs.model.states import Status

    return [status.value for status in Status if status.value.startswith(incomplete)]
