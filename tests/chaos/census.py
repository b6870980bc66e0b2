"""The census of a stage's processes: the attempt of each, whether it runs, and which must never run at the same time.

`Census` is a thread that looks five times a second, during the disturbances and after them. Before it notes a pair, it
looks at both processes again. So each of them was alive while the other was.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from jobs.runtime.processes import MARK, ProcessId, command_line, environment, pids

PERIOD_S = 0.2
AWAKE_S = 1.0  # the time in which a rank that was stopped must see that its lease has expired

Slot = tuple[str, int]  # host and index


@dataclass(frozen=True)
class JobProcess:
    """A process of a job, at one look."""

    process_id: ProcessId
    role: str  # rank, launcher, supervisor, or other: a process between horovodrun and a rank
    job_id: str = ""  # empty for a supervisor, whose mark is another one
    attempt: int = 0  # the attempt's number; for a supervisor the attempt's id
    rank: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether SIGSTOP stopped the process. False if the process is gone."""
        try:
            stat = Path(f"/proc/{self.process_id.pid}/stat").read_text(errors="replace")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in "Tt" and self.process_id.is_alive

    def __str__(self) -> str:
        rank = "" if self.rank is None else f" {self.rank}"
        attempt = f"{self.job_id}.{self.attempt}" if self.job_id else f"attempt {self.attempt}"
        return f"{self.role}{rank} of {attempt} (pid {self.process_id.pid})"


def processes_of(*homes: Path) -> list[JobProcess]:
    """Every process of a job of the hosts at `homes`: supervisors, launchers, ranks and the processes between them."""
    home_variables = {f"HORA_HOME={home}".encode() for home in homes}
    processes = []
    for pid in pids():
        variables = environment(pid)
        if pid != os.getpid() and home_variables & variables:
            process = _process_of(pid, dict(item.split(b"=", 1) for item in variables if b"=" in item))
            if process is not None:
                processes.append(process)
    return processes


def _process_of(pid: int, variables: Mapping[bytes, bytes]) -> JobProcess | None:
    process_id = ProcessId.of(pid)
    arguments = command_line(pid)
    module = _module(arguments)
    mark = variables.get(MARK.encode(), b"").decode()
    if process_id is None or not (mark or module == "worker.supervisor"):
        return None
    job_id, _, number = mark.rpartition(".") if mark else ("", "", arguments[3].decode())
    role = {"trainer": "rank", "worker.horovodrun": "launcher", "worker.supervisor": "supervisor"}.get(module, "other")
    rank = variables.get(b"HOROVOD_RANK")
    return JobProcess(
        process_id, role, job_id, int(number or 0), int(rank) if rank is not None and role == "rank" else None
    )


def _module(arguments: list[bytes]) -> str:
    """The module that `python -m` runs; empty for any other command."""
    return arguments[2].decode(errors="replace") if len(arguments) > 2 and arguments[1] == b"-m" else ""


def twice_at_once(training: Iterable[JobProcess]) -> list[tuple[JobProcess, JobProcess]]:
    """Pairs of ranks that belong to two attempts of one job."""
    return [
        (one, other)
        for one, other in combinations(training, 2)
        if one.job_id == other.job_id and one.attempt != other.attempt
    ]


def slot_shared(
    alive: Iterable[JobProcess], slots: Mapping[tuple[str, int], frozenset[Slot]]
) -> list[tuple[JobProcess, JobProcess]]:
    """Pairs of processes of two attempts whose rows name the same slot."""
    return [
        (one, other)
        for one, other in combinations(alive, 2)
        if (one.job_id, one.attempt) != (other.job_id, other.attempt)
        and slots.get((one.job_id, one.attempt), frozenset()) & slots.get((other.job_id, other.attempt), frozenset())
    ]


class Census(threading.Thread):
    """Looks until it is stopped. `violations` has a sentence for each forbidden pair of processes."""

    def __init__(self, homes: Sequence[Path], slots: Callable[[], Mapping[tuple[str, int], frozenset[Slot]]]) -> None:
        super().__init__(name="census", daemon=True)
        self.violations: dict[str, None] = {}  # the keys are the sentences, each once, oldest first
        self._homes = homes
        self._slots = slots
        self._awake_since: dict[ProcessId, float] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        """Look once a period."""
        while not self._ended.wait(PERIOD_S):
            self.look()

    def stop(self) -> None:
        """End after the current look."""
        self._ended.set()
        self.join()

    def look(self) -> None:
        """Look at all processes once, and note the forbidden pairs."""
        marked = [process for process in processes_of(*self._homes) if process.job_id]
        training = [process for process in marked if process.role == "rank" and self._is_awake(process)]
        for first, second in twice_at_once(training):
            if all(process.process_id.is_alive and not process.is_stopped for process in (first, second)):
                self.violations.setdefault(f"two attempts of one job train at once: {first} and {second}")
        for first, second in slot_shared(marked, self._slots()):
            if first.process_id.is_alive and second.process_id.is_alive:
                self.violations.setdefault(f"two attempts are on one slot at once: {first} and {second}")

    def _is_awake(self, rank: JobProcess) -> bool:
        now = time.monotonic()
        if rank.is_stopped:
            self._awake_since[rank.process_id] = now
            return False
        return now - self._awake_since.get(rank.process_id, -AWAKE_S) >= AWAKE_S
