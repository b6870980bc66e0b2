"""Finding and ending the processes of an attempt, whoever their parents are by now.

Every process below `horovodrun` inherits the mark in its environment, and nothing else survives sessions, process
groups and dead parents. Used by the supervisor at the end of an attempt and by the agent after a crash.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MARK = "HORA_ATTEMPT"
_EMPTY_LOOKS = 3
_EXEC_LIMIT_S = 1.0  # an exec takes a millisecond


def mark_of(job_id: str, number: int) -> str:
    """What `HORA_ATTEMPT` holds in every process of an attempt."""
    return f"{job_id}.{number}"


def marked(mark: str) -> list[int]:
    """Pids of the living processes that carry the mark (a zombie has no environment, so it is not among them)."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in pids() if wanted in environment(pid)]


def pids() -> Iterator[int]:
    """Every pid on this host."""
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def environment(pid: int) -> frozenset[bytes]:
    """The `KEY=value` items a process was started with; empty where it is gone or not ours to read.

    In the middle of an `exec` a process has no environment, or only that of a memory that is just being given up. So
    an empty one is believed only when it stays so beside arguments that are there: one look in twenty-five missed a
    process that was becoming another, and the slots below a living rank would be given back.
    """
    root = Path(f"/proc/{pid}")
    give_up_at, seen_empty = time.monotonic() + _EXEC_LIMIT_S, 0
    try:
        while not (content := (root / "environ").read_bytes()):
            (root / "exe").readlink()  # raises for a zombie and for a thread of the kernel, which have none
            seen_empty += bool((root / "cmdline").read_bytes())
            if seen_empty == _EMPTY_LOOKS or time.monotonic() > give_up_at:
                break
            time.sleep(0.001)
    except OSError:
        return frozenset()
    return frozenset(content.split(b"\0"))


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


def started_at(pid: int) -> float | None:
    """When the process started (seconds since the epoch), which tells it from a later one with its pid."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def is_alive(pid: int, since: float) -> bool:
    """Whether the process `pid` that started at `since` still runs."""
    start = started_at(pid)
    return start is not None and abs(start - since) < 1.0
