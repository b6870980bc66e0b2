"""The lease file: until when the ranks of a host may run. Their supervisor or member writes it again and again.

Ranks leave when that time has come, and ask nobody: their supervisor may be stopped, dead, or cut off, and by then
their job may run elsewhere. Written by the supervisor on the lead host and by the member on every other; read by
`trainer.stopping`. The time is of CLOCK_MONOTONIC, which all processes of a host share and nobody sets.
"""

import os
from pathlib import Path


def extend(path: Path, until: float) -> None:
    """Let the ranks run until `until`, a value of `time.monotonic()`."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(repr(until))
    os.replace(unfinished, path)


def read_until(path: Path) -> float | None:
    """Until when the ranks may run; None where there is no such file yet."""
    try:
        return float(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
