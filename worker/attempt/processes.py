"""Finds and ends the processes of an attempt, even if their parents have changed.

Every process below `horovodrun` inherits the mark in its environment. Sessions, process groups and dead parents do not
change that. A process that cleared its environment is found below the supervisor, which adopts the orphans of its
attempt. Used by the supervisor at the end of an attempt, by the agent after a crash, and by members on other hosts.
"""

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

from jobs.runtime.processes import MARK, SUPERVISOR_MARK, descendants, environment, pids, state_and_parent

_MOST_ROUNDS = 20  # of stopping, where a program starts ever more processes
_LOOKS = 2  # a single look may miss a process that is just getting another parent


def pids_with_mark(mark: str) -> list[int]:
    """Pids of the living processes with the mark. Zombies have no environment, so they are not included."""
    return _pids_with(MARK, mark)


def pids_of_supervisors(mark: str) -> list[int]:
    """Pids of the living supervisors of the attempt, and of what they started with their own environment."""
    return _pids_with(SUPERVISOR_MARK, mark)


def _pids_with(name: str, value: str) -> list[int]:
    variable = f"{name}={value}".encode()
    return [pid for pid in pids() if variable in environment(pid)]


def is_stopped(pid: int) -> bool:
    """Whether the process exists and is stopped, by SIGSTOP or a debugger."""
    return state_and_parent(pid)[0] in "Tt"


def pids_of_attempt(mark: str, *, below: Collection[int] = (), spared: Collection[int] = ()) -> list[int]:
    """Pids of the processes with the mark, and of those below the processes in `below`."""
    return list(dict.fromkeys([*pids_with_mark(mark), *descendants(*below, spared=spared)]))


def send_signal(pids_found: Collection[int], number: int) -> None:
    """Send a signal to each of these processes that still exists."""
    for pid in pids_found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def signal_marked(mark: str, number: int) -> int:
    """Send a signal to every process that carries the mark; returns how many there were."""
    pids_found = pids_with_mark(mark)
    send_signal(pids_found, number)
    return len(pids_found)


def sweep(mark: str, *, timeout_s: float = 5.0, below: Collection[int] = ()) -> bool:
    """Kill every process of the attempt. Returns False if one still exists after `timeout_s` (stuck in the kernel).

    A process that cleared its environment is known by its parents alone. So all are stopped before the first one ends:
    what is stopped starts no more.
    """
    give_up_at = time.monotonic() + timeout_s
    empty_looks = 0
    while empty_looks < _LOOKS:
        pids_found = _stopped(mark, below)
        empty_looks = 0 if pids_found else empty_looks + 1
        send_signal(pids_found, signal.SIGKILL)
        if pids_found:
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.02)
    return True


def _stopped(mark: str, below: Collection[int]) -> set[int]:
    """Stop every process of the attempt, and those below them. Returns their pids."""
    stopped: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        marked = pids_with_mark(mark)
        fresh = {*marked, *descendants(*below, *marked)} - stopped
        if not fresh:
            break
        send_signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    return stopped
