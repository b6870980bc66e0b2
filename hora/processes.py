"""Processes that may outlive whoever started them: named so that they are never mistaken, and ended for sure.

Used by the keeper and by `hora down`. Linux only: everything is read from /proc.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
SUPERVISOR = "worker.supervisor"  # the module that owns one attempt, as it stands in its command line


@dataclass(frozen=True)
class ProcessId:
    """One process, for ever: a pid is used again after its process, the pair with its start time is not."""

    pid: int
    started: int  # clock ticks from the start of the machine, unmoved by a change of the clock

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has `pid` now; None when there is none or it is only waiting to be reaped."""
        started = _started(pid)
        return None if started is None else cls(pid, started)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return _started(self.pid) == self.started

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send it a signal, or with `group` its process group too; nothing when it is gone."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number) if group and os.getpgid(self.pid) == self.pid else os.kill(self.pid, number)


def wait_ended(processes: Iterable[ProcessId], within_s: float) -> list[ProcessId]:
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

    The launcher puts `HORA_HOME` and `HORA_ATTEMPT` into the environment of an attempt's processes; a child
    keeps them whatever session it moves to. A supervisor is told by its command, and has no mark ("").
    """
    wanted = f"HORA_HOME={home}"
    found = {}
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        environment = _words(pid, "environ")
        if pid == os.getpid() or wanted not in environment:
            continue
        mark = next((line.partition("=")[2] for line in environment if line.startswith("HORA_ATTEMPT=")), "")
        process = ProcessId.of(pid)
        if process is not None and (mark or SUPERVISOR in _words(pid, "cmdline")):
            found[process] = mark
    return found


def end_attempts(home: Path, *, grace_s: float) -> str | None:
    """End every attempt of the stack at `home`; returns what was done, None when none was running.

    The supervisors are asked: each then lets its ranks save, and puts its job back into the queue. What still
    runs after `grace_s` is killed, again and again until a sweep finds nothing.
    """
    running = attempts_of(home)
    if not running:
        return None
    supervisors = [process for process in running if SUPERVISOR in _words(process.pid, "cmdline")]
    for process in supervisors:
        process.signal(signal.SIGTERM)
    wait_ended(supervisors, grace_s)
    killed = set()
    deadline = time.monotonic() + 5
    while (left := attempts_of(home)) and time.monotonic() < deadline:
        killed |= set(left)
        for process in left:
            process.signal(signal.SIGKILL)
        wait_ended(left, 1)
    attempts = len(set(running.values()) - {""}) or 1
    return f"{attempts} running {'attempt' if attempts == 1 else 'attempts'} stopped" + (
        f", {len(killed)} {'process' if len(killed) == 1 else 'processes'} killed" if killed else ""
    )


def _started(pid: int) -> int | None:
    try:
        # The command's name, in parentheses, may hold anything; the state is the first field after it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _words(pid: int, name: str) -> list[str]:
    """The environment or the command line of a process; empty when it is gone, a zombie, or another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
