"""The lease file: until when the ranks of a host may run. Their supervisor or member rewrites it regularly.

Ranks exit at that time without asking: their supervisor may be stopped, dead or cut off, and their job may already run
on another host. The supervisor writes it on the lead host, the member on every other host. `trainer.stopping` reads it.
The time is that of CLOCK_MONOTONIC, which is the same in all processes of a host and cannot be set.
"""

import os
from pathlib import Path


def extend(path: Path, until: float) -> None:
    """Let the ranks run until `until`, a value of `time.monotonic()`."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(repr(until))
    os.replace(unfinished, path)


def read_until(path: Path) -> float | None:
    """Until when the ranks may run. None if there is no such file yet."""
    try:
        return float(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
