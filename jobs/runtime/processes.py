"""Processes of this host, identified even if pids are reused, and the marks that show to which job they belong.

Used by the worker (supervisors, ranks) and by the local stack's keeper. Linux only: everything is read from /proc.
"""

import ctypes
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "HORA_ATTEMPT"  # in the environment of every process of an attempt, beside HORA_HOME
SUPERVISOR_MARK = "HORA_SUPERVISED_ATTEMPT"  # in that of its supervisor
_EMPTY_LOOKS = 5
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_EXEC_LOOKS = 1000  # a millisecond apart: an exec takes about that long


def mark_of(job_id: str, number: int) -> str:
    """The value of both marks."""
    return f"{job_id}.{number}"


@dataclass(frozen=True)
class ProcessId:
    """Identifies one process forever: a pid can be reused, but not the pair of pid and start time."""

    pid: int
    started: int  # clock ticks from the start of the machine; changing the clock does not affect them

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has `pid` now. None if there is none, or if it is a zombie."""
        started = _start_ticks(pid)
        return None if started is None else cls(pid, started)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return _start_ticks(self.pid) == self.started

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send it a signal; with `group`, to its process group too. If it is gone, nothing happens."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number) if group and os.getpgid(self.pid) == self.pid else os.kill(self.pid, number)


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (proc_pid_stat(5)). Empty if it is gone or a zombie."""
    try:
        # The command's name, in parentheses, may hold anything; the state is the first field after it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] in "ZX" else fields


def pids() -> Iterator[int]:
    """Every pid on this host."""
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def descendants(*roots: int, spared: Collection[int] = ()) -> list[int]:
    """Pids of the living processes below `roots`, except those in `spared` and all below these. Each comes once."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        state, parent = state_and_parent(pid)
        if state not in "ZX":
            children.setdefault(parent, []).append(pid)
    below: dict[int, None] = {}
    to_visit = list(roots)
    while to_visit:
        direct = [pid for pid in children.get(to_visit.pop(), []) if pid not in spared and pid not in below]
        below |= dict.fromkeys(direct)
        to_visit += direct
    return list(below)


def state_and_parent(pid: int) -> tuple[str, int]:
    """Two fields of /proc/PID/stat (proc_pid_stat(5)); X and 0 of a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, parent = stat.read().rpartition(b")")[2].split()[:2]  # the name before may hold anything
    except (OSError, ValueError):
        return "X", 0
    return state.decode(), int(parent)


def environment(pid: int) -> frozenset[bytes]:
    """The `KEY=value` items with which a process was started. Empty if it is gone or we may not read it.

    In the middle of an `exec` a process has no environment, or only one in memory that is just being freed. So an empty
    environment counts only if the kernel says several times that its length is zero. With a single look, one in
    twenty-five missed a process in its `exec`, and the slots of a live rank would have been released. The loop counts
    looks and not time, because time also passes while this process itself does not run.
    """
    seen_empty = 0
    for _ in range(_EXEC_LOOKS):
        try:
            if content := Path(f"/proc/{pid}/environ").read_bytes():
                return frozenset(content.split(b"\0"))
        except PermissionError:
            break
        except OSError:
            pass  # gone, or in the middle of an exec
        fields = _stat(pid)
        seen_empty += bool(fields) and fields[47] == fields[48] != "0"  # where it begins and ends
        if not fields or int(fields[6]) & _KERNEL_THREAD or seen_empty == _EMPTY_LOOKS:
            break
        time.sleep(0.001)
    return frozenset()


def command_line(pid: int) -> list[bytes]:
    """The arguments with which a process was started. Empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parents die, in any session and with any environment."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(spared: Collection[int]) -> None:
    """Reap the adopted children of this process that died. Other code waits for those in `spared`."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in spared:
            return
        with suppress(ChildProcessError):
            os.waitpid(dead.si_pid, os.WNOHANG)
