"""The checkpoints of jobs that are in the store: list and download."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hora.errors import HoraError, Json
from hora.service.calls import Calls
from hora.service.transport import api_path

NEWEST, BEST = "newest", "best"
_MOST_NAMED = 20  # steps in a sentence


class CheckpointCalls(Calls):
    """The requests about checkpoints."""

    def checkpoints(self, job_id: str, *, page_size: int = 100) -> Iterator[Json]:
        """The checkpoints of a job in the store, the newest first.

        `{attempt, step, epoch, saved_at, bytes, is_best, files: [{path, bytes, sha256}]}`
        """
        yield from self._wire.pages(api_path("jobs", job_id, "checkpoints"), {"limit": page_size})

    def download_checkpoint(
        self,
        job_id: str,
        which: int | str,
        folder: Path | str,
        *,
        on_bytes: Callable[[str, int, int], None] | None = None,
    ) -> list[Path]:
        """Download the files of a checkpoint into `folder`, except those that are there already. Returns their paths.

        `which` is its step, `"newest"` or `"best"`. `on_bytes` gets a file's path, its number of bytes so far, and its
        size. Raises `HoraError` if the store has no such checkpoint, if a name leads out of `folder`, and if a file
        arrives damaged.
        """
        return self.fetch_checkpoint(job_id, chosen(self.checkpoints(job_id), which), folder, on_bytes=on_bytes)

    def fetch_checkpoint(
        self,
        job_id: str,
        checkpoint: Json,
        folder: Path | str,
        *,
        on_bytes: Callable[[str, int, int], None] | None = None,
    ) -> list[Path]:
        """The same for a checkpoint of the list."""
        from hora.service.downloads import fetch_checkpoint

        return fetch_checkpoint(self._wire, job_id, checkpoint, Path(folder), on_bytes or (lambda *_: None))


def chosen(checkpoints: Iterable[Json], which: int | str) -> Json:
    """The checkpoint of a step, the newest or the best one. Raises `HoraError`, which names those that are there."""
    there = list(checkpoints)
    if not there:
        raise HoraError("The store has no checkpoint of this job.")
    if which == NEWEST:
        return there[0]
    for checkpoint in there:
        if checkpoint["is_best"] if which == BEST else str(checkpoint["step"]) == str(which):
            return checkpoint
    steps = ", ".join(str(checkpoint["step"]) for checkpoint in there[:_MOST_NAMED])
    others = f"the store has the steps {steps}" + (", ..." if there[_MOST_NAMED:] else "")
    if which == BEST:
        raise HoraError(f"The best checkpoint is not in the store, or nothing says which one it is: {others}.")
    if not str(which).isdecimal():
        raise HoraError(f"{which!r} is no checkpoint: give a step, {NEWEST} or {BEST}; {others}.")
    raise HoraError(f"The store has no checkpoint of step {which}: {others}.")
