"""Ending the processes of an attempt, in order: stop file, SIGTERM, SIGKILL; each with its own time limit.

Used by the supervision of an attempt. A file and an environment mark reach every process; process groups do not,
since each rank runs in a session of its own.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from worker.processes import marked, signal_marked, sweep


def stop(
    mark: str,
    *,
    stop_file: Path | None,
    stop_file_grace_s: float,
    sigterm_grace_s: float,
    meanwhile: Callable[[], None],
) -> bool:
    """End every process of the attempt; False where one could not be ended.

    With a `stop_file` the ranks are first asked to save and leave. `meanwhile` runs between two looks.
    """
    if stop_file is not None:
        stop_file.touch()
        if _gone_within(mark, stop_file_grace_s, meanwhile):
            return True
    signal_marked(mark, signal.SIGTERM)
    return _gone_within(mark, sigterm_grace_s, meanwhile) or sweep(mark)


def _gone_within(mark: str, limit_s: float, meanwhile: Callable[[], None]) -> bool:
    give_up_at = time.monotonic() + limit_s
    while marked(mark):
        if time.monotonic() > give_up_at:
            return False
        meanwhile()
        time.sleep(0.05)
    return True
