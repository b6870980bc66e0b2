"""Watches what the processes of a script use of the host: memory, processes, and space in the folders it may write.

Called by the rank that watches over the script, a few times a second. All processes below the rank are the script's:
the rank adopts those whose parents end. Standard library only.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from jobs.runtime.files import size_text
from jobs.runtime.processes import adopt_orphans, descendants, reap_orphans
from trainer.script.view import SHARED_MEMORY

# Less than what the kernel lets a script start (`trainer.script.confinement`, threads included). More would take
# so much of the processors that this process could not end them for minutes.
_MOST_PROCESSES = 256 + 32 * (os.cpu_count() or 1)
_KILL_S = 10.0
_SHARE_OF_TIME = 0.1  # that measuring the folders may take
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512  # of st_blocks

Excess = tuple[str, str]  # end reason, sentence for people


class Limits:
    """The limits of one rank's script. `first` is its first process."""

    def __init__(
        self,
        first: int,
        *,
        memory_bytes: int | None,
        storage_bytes: int | None,
        folders: Sequence[Path],
        shared_memory: Path | None = None,
    ) -> None:
        self._first = first
        self._memory_bytes = memory_bytes
        self._storage_bytes = storage_bytes
        self._folders = [str(folder) for folder in folders]
        self._shared_memory = [] if shared_memory is None else [str(shared_memory)]
        self._measure_at = 0.0
        adopt_orphans()

    def exceeded(self) -> Excess | None:
        """Why the script must be killed, if it uses more than it may."""
        pids = self.processes()
        if len(pids) > _MOST_PROCESSES:
            return "script_failed", f"the script has more than {_MOST_PROCESSES:,} processes, the most on this host"
        if self._memory_bytes is not None and (used := self._memory(pids)) > self._memory_bytes:
            return "out_of_memory", (
                f"the script uses {size_text(used)} of memory, more than the {size_text(self._memory_bytes)} that each"
                " of its ranks may use here (HORA_MAX_CODE_MEMORY_GB)"
            )
        return self._storage_excess(pids)

    def processes(self) -> list[int]:
        """The processes of the script that live."""
        reap_orphans({self._first})
        return descendants(os.getpid())

    def _memory(self, pids: Collection[int]) -> int:
        """Bytes of memory of these processes, and in the files that they share through memory."""
        used = sum(_resident_bytes(pid) for pid in pids)
        if self._memory_bytes is not None and used > self._memory_bytes:
            used = sum(_proportional_bytes(pid) for pid in pids)  # slower; counts pages once that many share
        return max(used, _open_bytes(pids, in_memory=True) + _bytes_below(self._shared_memory))

    def _storage_excess(self, pids: Collection[int]) -> Excess | None:
        if self._storage_bytes is None or time.monotonic() < self._measure_at:
            return None
        began = time.monotonic()
        used = _bytes_below(self._folders) + _open_bytes(pids, in_memory=False)
        took_s = time.monotonic() - began
        self._measure_at = began + took_s / _SHARE_OF_TIME
        if used <= self._storage_bytes:
            return None
        return "script_failed", (
            f"the script has written {size_text(used)}, more than the {size_text(self._storage_bytes)} that it may"
            " use on a host (HORA_MAX_CODE_STORAGE_GB)"
        )

    def terminate(self) -> None:
        """Ask every process of the script to end, with SIGTERM. What holds it stays: it would take them along."""
        for pid in self.processes():
            if not _is_bubblewrap(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of the script. What the kernel does not end within some seconds is left to the sweep."""
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


def _open_bytes(pids: Collection[int], *, in_memory: bool) -> int:
    """Bytes of the open files without a name that these processes hold: in memory, or on disks."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                    is_in_memory = link.startswith(("/memfd:", f"{SHARED_MEMORY}/", "/dev/zero"))
                    if link.endswith(" (deleted)") and is_in_memory == in_memory:
                        status = os.stat(f"/proc/{pid}/fd/{name}")
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
    return sum(sizes.values())


def _bytes_below(folders: Sequence[str]) -> int:
    """What these folders and files take on their disks, however deep. A file with several names counts once."""
    if not folders:
        return 0
    measured = subprocess.run(
        ["du", "-s", "-c", "--block-size=1", "--", *folders],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    try:
        return int(measured.stdout.splitlines()[-1].split()[0])
    except (ValueError, IndexError):
        return 0
