"""Until when the ranks of a host may run: a file that whoever watches over them keeps writing anew.

Ranks leave when that time has come, without asking anybody: their supervisor may be stopped, dead, or cut off, and by
then their job may run elsewhere. Written by the supervisor on the lead host and by the member on every other; read by
`trainer.stopping`. The time is of CLOCK_MONOTONIC, which all processes of a host share and nobody sets.
"""

import os
from pathlib import Path


def extend(path: Path, until: float) -> None:
    """Let the ranks run until `until`, a value of `time.monotonic()`."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(repr(until))
    os.replace(unfinished, path)


def until(path: Path) -> float | None:
    """Until when the ranks may run; None where nobody has said so yet."""
    try:
        return float(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
