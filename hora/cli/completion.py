"""Shell completion of ids and names, which come from the service. Used by `hora.cli.options`."""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hora.service import Service

Proposal = tuple[str, str]  # a name, and a description for shells that show one
TIMEOUT_S = 1.0  # a person at a prompt does not wait longer
_MAX_PROPOSALS = 100  # one page
# zsh evaluates a proposal as a command. A backslash in a job's name would end the quotes around it.
_FOR_SHELLS = re.compile(r"[\\`$\"']")


def from_service(request: "Callable[[Service], Iterable[Proposal]]") -> Callable[[typer.Context, str], list[Proposal]]:
    """A completion that asks the service. It proposes nothing if the service is slow or down or refuses."""

    def complete(context: typer.Context, incomplete: str) -> list[Proposal]:
        proposals: list[Proposal] = []

        def fetch() -> None:
            try:
                from hora.connection import connect, use_profile

                use_profile(context.find_root().params.get("profile"))  # it holds for this thread alone
                with connect(timeout_s=TIMEOUT_S) as service:
                    proposals.extend(_matching(request(service), incomplete))
            except Exception:  # noqa: S110 - there is nobody to tell
                pass

        thread = Thread(target=fetch, daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        return [] if thread.is_alive() else proposals

    return complete


def _matching(proposals: Iterable[Proposal], incomplete: str) -> Iterable[Proposal]:
    from rich.markup import escape

    from hora.render.text import plain

    for name, description in islice(proposals, _MAX_PROPOSALS):
        if name.startswith(incomplete) and name == plain(name) and " " not in name:
            yield name, escape(_FOR_SHELLS.sub("_", plain(description)))


def _jobs(service: "Service") -> Iterable[Proposal]:
    return ((job["id"], f"{job['name']}, {job['status']}") for job in service.jobs(page_size=_MAX_PROPOSALS))


def _studies(service: "Service") -> Iterable[Proposal]:
    return ((study["id"], study["name"]) for study in service.studies(page_size=_MAX_PROPOSALS))


def _hosts(service: "Service") -> Iterable[Proposal]:
    return ((host["name"], f"{len(host['slots'])} slots") for host in service.hosts())


job_ids, study_ids, host_names = from_service(_jobs), from_service(_studies), from_service(_hosts)


def statuses(incomplete: str) -> list[str]:
    """The statuses of a job."""
    from jobs.model.states import Status

    return [status.value for status in Status if status.value.startswith(incomplete)]
