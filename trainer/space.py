"""The space on the disks that a rank writes: how much there is, and the wait for it.

Used by the recorder, by checkpoints, and by the session for what a run leaves.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from trainer.errors import NoSpace, why_no_space

_LOOK_S = 0.5


def wait_for_space(
    action: Callable[[], None], waited: Callable[[float], None], *, within_s: float, folder: Path | None = None
) -> None:
    """Run an action that writes. If there is no space, run it again when there is more. Raises `NoSpace`.

    `waited` is called again and again with the time that the wait has taken. With a `folder` the action runs again
    only after its disk has got more space than it had after the last try.
    """
    started, is_waiting = time.monotonic(), False
    while True:
        try:
            return action()
        except Exception as error:
            why = why_no_space(error)
            if why is None:
                raise
        free_before = free_in(folder) if folder is not None else None  # what the action wrote is removed by now
        if not is_waiting:
            print(f"warning: no space: waiting up to {within_s:g} s for it: {why}", flush=True)
            is_waiting = True
        while True:
            waited_s = time.monotonic() - started
            if waited_s >= within_s:
                raise NoSpace(f"there was no space for {within_s:g} s: {why}")
            waited(waited_s)
            time.sleep(_LOOK_S)
            if folder is None or free_before is None or _has_more(free_in(folder), free_before):
                break


def free_in(folder: Path) -> tuple[int, int]:
    """The free bytes and files of the disk of a folder, or of the nearest folder above it that exists."""
    place = next(place for place in (folder, *folder.parents) if place.exists())
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize, status.f_favail


def _has_more(free: tuple[int, int], before: tuple[int, int]) -> bool:
    return free[0] > before[0] or free[1] > before[1]
