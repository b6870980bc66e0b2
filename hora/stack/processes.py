"""Ends processes that may outlive the process that started them. Used by the keeper and by `hora down`."""

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from jobs.runtime.processes import MARK, ProcessId, command_line, descendants, environment, pids

POLL_S = 0.02
SUPERVISOR = "worker.supervisor"  # the module that owns one attempt, as it stands in its command line


def wait_ended(processes: Collection[ProcessId], within_s: float) -> list[ProcessId]:
    """Wait until all `processes` ended; returns those that still run after `within_s`."""
    deadline = time.monotonic() + within_s
    alive = [process for process in processes if process.is_alive]
    while alive and time.monotonic() < deadline:
        time.sleep(POLL_S)
        alive = [process for process in alive if process.is_alive]
    return alive


def end(process: ProcessId, *, first: int = signal.SIGTERM, grace_s: float) -> str | None:
    """End a process that leads its own group; returns how: "stopped" or "killed", None when it was gone."""
    if not process.is_alive:
        return None
    process.signal(first)
    if not wait_ended([process], grace_s):
        return "stopped"
    process.signal(signal.SIGKILL, group=True)
    wait_ended([process], 5)
    return "killed"


def attempts_of(home: Path) -> dict[ProcessId, str]:
    """Every live process that runs for a job of the stack at `home`, with its attempt's mark.

    The launcher puts `HORA_HOME` and `HORA_ATTEMPT` into the environment of an attempt's processes. A child keeps
    them, also in another session. A supervisor is recognized by its command, and has no mark ("").
    """
    home_variable, mark_prefix = f"HORA_HOME={home}".encode(), f"{MARK}=".encode()
    marks = {}
    for pid in pids():
        variables = environment(pid)
        if pid == os.getpid() or home_variable not in variables:
            continue
        mark = next((item.removeprefix(mark_prefix).decode() for item in variables if item.startswith(mark_prefix)), "")
        process = ProcessId.of(pid)
        if process is not None and (mark or _is_supervisor(pid)):
            marks[process] = mark
    return marks


def end_attempts(home: Path, *, grace_s: float) -> str | None:
    """End every attempt of the stack at `home`. Returns what was stopped, None when none was running.

    SIGTERM lets each supervisor save and put its job back into the queue. Processes that still run after `grace_s` are
    killed, again and again until a sweep finds none.
    """
    running = attempts_of(home)
    if not running:
        return None
    supervisors = [process for process in running if _is_supervisor(process.pid)]
    for process in supervisors:
        process.signal(signal.SIGTERM)
    wait_ended(supervisors, grace_s)
    killed = set()
    deadline = time.monotonic() + 5
    while (left := _with_descendants(attempts_of(home))) and time.monotonic() < deadline:
        killed |= left
        for process in left:
            process.signal(signal.SIGKILL)
        wait_ended(left, 1)
    attempts = len(set(running.values()) - {""}) or 1
    return f"{attempts} running {'attempt' if attempts == 1 else 'attempts'} stopped" + (
        f", {len(killed)} {'process' if len(killed) == 1 else 'processes'} killed" if killed else ""
    )


def _with_descendants(processes: Collection[ProcessId]) -> set[ProcessId]:
    """These and their descendants, whatever their environment. A supervisor adopts its attempt's orphans."""
    below = (ProcessId.of(pid) for process in processes for pid in descendants(process.pid))
    return {*processes, *(process for process in below if process is not None)}


def _is_supervisor(pid: int) -> bool:
    return SUPERVISOR.encode() in command_line(pid)
