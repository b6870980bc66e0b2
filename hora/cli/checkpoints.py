"""`hora artifacts --checkpoints`: the checkpoints of a job in the store. Called by `hora.cli.artifacts`."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hora.cli.output import display, print_json, say
from hora.errors import HoraError

if TYPE_CHECKING:
    from hora.service import Service


def list_checkpoints(client: "Service", job_id: str, *, as_json: bool) -> None:
    """Print those that are there, the newest first."""
    from hora.render.checkpoints import checkpoints_table

    checkpoints = list(client.checkpoints(job_id))
    if as_json:
        print_json({"items": checkpoints})
    elif checkpoints:
        display(checkpoints_table(checkpoints))
    else:
        say("The store has no checkpoint of this job.")


def fetch_one(client: "Service", job_id: str, which: str, folder: Path | None) -> list[Path]:
    """Fetch the checkpoint of a step, the newest or the best one into a folder. Returns the paths of its files."""
    from hora.cli.download_progress import progress
    from hora.service.checkpoints import chosen

    checkpoints = list(client.checkpoints(job_id))
    try:
        checkpoint = chosen(checkpoints, which)
    except HoraError as error:
        raise typer.BadParameter(str(error)) from None
    with progress() as show:
        into = folder or Path(f"{job_id}-step-{checkpoint['step']}")
        return client.fetch_checkpoint(job_id, checkpoint, into, on_bytes=show)


def fetch_all(client: "Service", job_id: str, folder: Path | None) -> list[Path]:
    """Fetch each checkpoint into a folder of its own. Returns the paths of all files."""
    from hora.cli.download_progress import progress

    top = folder or Path(f"{job_id}-checkpoints")
    saved: list[Path] = []
    with progress() as show:
        for checkpoint in list(client.checkpoints(job_id)):
            attempt, step = int(checkpoint["attempt"]), int(checkpoint["step"])
            place = f"attempt-{attempt}/step-{step}"

            def show_with_place(path: str, so_far: int, size: int, place: str = place) -> None:
                show(f"{place}/{path}", so_far, size)

            saved += client.fetch_checkpoint(job_id, checkpoint, top / place, on_bytes=show_with_place)
    return saved
