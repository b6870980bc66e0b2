"""Watches what the processes of a script use of the host: memory, processes, and space in the folders it may write.

Called by the rank that watches over the script, a few times a second. All processes below the rank are the script's:
the rank adopts those whose parents end. Standard library only.
"""

import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from jobs.runtime.files import size_text
from jobs.runtime.processes import adopt_orphans, descendants, reap_orphans
from jobs.runtime.script_user import uid_of
from trainer.script.usage import FileUsage

# Processes and threads of one rank's script. More would take so much of the processors that this process could not end
# them for minutes.
MOST_TASKS = 512 + 128 * (os.cpu_count() or 1)
_KILL_S = 10.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Excess = tuple[str, str]  # end reason, sentence for people


class Limits:
    """The limits of one rank's script. `first` is its first process, and `user` runs it, if not the worker's."""

    def __init__(
        self,
        first: int,
        *,
        memory_bytes: int | None,
        storage_bytes: int | None,
        folders: Sequence[Path],
        shared_memory: Path | None = None,
        user: str | None = None,
    ) -> None:
        self._first = first
        self._memory_bytes = memory_bytes
        self._storage_bytes = storage_bytes
        adopt_orphans()
        self._files = FileUsage(
            self.processes,
            on_disk=folders,
            in_memory=[] if shared_memory is None else [shared_memory],
            uid=uid_of(user),
        )
        self._files.start()

    def exceeded(self) -> Excess | None:
        """Why the script must be killed, if it uses more than it may."""
        pids = self.processes()
        if sum(map(_tasks, pids)) > MOST_TASKS:
            return (
                "script_failed",
                f"the script has more than {MOST_TASKS:,} processes and threads, the most on this host",
            )
        if self._memory_bytes is not None and (used := self._memory(pids)) > self._memory_bytes:
            return "out_of_memory", (
                f"the script uses {size_text(used)} of memory, more than the {size_text(self._memory_bytes)} that each"
                " of its ranks may use here (HORA_MAX_CODE_MEMORY_GB)"
            )
        files = self._files
        if self._storage_bytes is not None and files.on_disk_bytes > self._storage_bytes:
            return "script_failed", (
                f"the script has written {size_text(files.on_disk_bytes)} in {files.count:,} files and folders, more"
                f" than the {size_text(self._storage_bytes)} that it may use on a host (HORA_MAX_CODE_STORAGE_GB)"
            )
        return None

    def exceeded_at_the_end(self) -> Excess | None:
        """Why a script failed that met a limit of the kernel first. Measures all anew."""
        self._files.measure()
        return self.exceeded()

    def processes(self) -> list[int]:
        """The processes of the script that live."""
        reap_orphans({self._first})
        return descendants(os.getpid(), spared=self._files.pids)

    def _memory(self, pids: Collection[int]) -> int:
        """Bytes of memory of these processes, and in the files that they share through memory."""
        used = sum(_resident_bytes(pid) for pid in pids)
        if self._memory_bytes is not None and used > self._memory_bytes:
            used = sum(_proportional_bytes(pid) for pid in pids)  # slower; counts pages once that many share
        return max(used, self._files.in_memory_bytes)

    def terminate(self) -> None:
        """Ask every process of the script to end, with SIGTERM. What holds it stays: it would take them along."""
        for pid in self.processes():
            if not _is_bubblewrap(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of the script. What the kernel does not end within some seconds is left to the sweep."""
        if self._first in self.processes():
            with suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)  # where bubblewrap holds the others, they end with it
        give_up_at = time.monotonic() + _KILL_S
        while (pids := self.processes()) and time.monotonic() < give_up_at:
            for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped starts no more processes
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            time.sleep(0.01)


def _is_bubblewrap(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"
    except OSError:
        return False


def _tasks(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0  # it has ended


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0  # it has ended


def _proportional_bytes(pid: int) -> int:
    """Its memory, where a page that several processes share counts by its share (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, ValueError, StopIteration):
        return _resident_bytes(pid)
