"""Finding and ending the processes of an attempt, whoever their parents are by now.

Every process below `horovodrun` inherits the mark in its environment, and nothing else survives sessions, process
groups and dead parents. Used by the supervisor at the end of an attempt and by the agent after a crash.
"""

import os
import signal
import time

from jobs.processes import MARK, environment, pids


def marked(mark: str) -> list[int]:
    """Pids of the living processes that carry the mark (a zombie has no environment, so it is not among them)."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in pids() if wanted in environment(pid)]


def signal_marked(mark: str, number: signal.Signals) -> int:
    """Send a signal to every process of the attempt; returns how many there were."""
    found = marked(mark)
    for pid in found:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return len(found)


def sweep(mark: str, *, timeout_s: float = 5.0) -> bool:
    """Kill every process of the attempt; False where one is still there after `timeout_s` (stuck in the kernel)."""
    give_up_at = time.monotonic() + timeout_s
    while signal_marked(mark, signal.SIGKILL):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.02)
    return True
