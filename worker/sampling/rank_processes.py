"""Finds the processes of the ranks on this host for the sampler, and measures what they use.

A rank is recognised by its environment: the attempt's mark and Horovod's number. All processes of the host are checked
only while a rank is not found yet, and every few seconds for processes that ranks have started. In between only the
ranks' processes are read.
"""

import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from jobs.runtime.processes import MARK, environment, pids

_LOOK_S = 5.0  # how long a process that a rank started may be missed
_SETTLED_S = 5.0  # after this time a process does not become another program any more
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

RankKey = tuple[str, int]  # the attempt's mark, and the rank


@dataclass(frozen=True)
class RankReading:
    """CPU (percent of one core, since the last reading) and resident memory of a rank's processes."""

    cpu_percent: float | None
    memory_bytes: int


@dataclass
class _Process:
    """A process of a rank; which one had this pid, and what it had used at the last reading."""

    key: RankKey
    started: int | None = None
    ticks: int | None = None


@dataclass
class RankProcesses:
    """The ranks that run on this host."""

    _ranks: dict[int, _Process] = field(default_factory=dict)
    _strangers: set[int] = field(default_factory=set)
    _first_seen: dict[int, float] = field(default_factory=dict)  # of those that may still become a rank
    _looked_at: float = -_LOOK_S
    _read_at: float = 0.0

    def read(self, expected: Collection[RankKey] = ()) -> dict[RankKey, RankReading]:
        """One reading of every rank. The first reading of a process has no CPU share yet."""
        keys_found = {process.key for process in self._ranks.values()}
        if time.monotonic() - self._looked_at >= _LOOK_S or not keys_found.issuperset(expected):
            self._look()
        now = time.monotonic()
        elapsed_s, self._read_at = now - self._read_at, now
        readings: dict[RankKey, RankReading] = {}
        for pid, process in list(self._ranks.items()):
            usage = _usage_of(pid)
            if usage is None or process.started not in (None, usage[0]):  # gone, or another has its number
                del self._ranks[pid]
                continue
            started, ticks, pages = usage
            percent = None
            if process.ticks is not None:
                percent = 100 * (ticks - process.ticks) / _TICKS_PER_S / elapsed_s
            process.started, process.ticks = started, ticks
            reading = RankReading(percent, pages * _PAGE_BYTES)
            readings[process.key] = _added(readings.get(process.key), reading)
        return readings

    def _look(self) -> None:
        """Check the environment of new processes. A process of an attempt may still become a rank.

        So may a young process without a mark: over ssh a rank begins as a shell without the attempt's environment.
        """
        present, now = set(pids()), time.monotonic()
        self._looked_at = now
        self._first_seen = {pid: seen for pid, seen in self._first_seen.items() if pid in present}
        self._strangers &= present
        for pid in present - self._ranks.keys() - self._strangers:
            variables = dict(item.split(b"=", 1) for item in environment(pid) if b"=" in item)
            if not variables:  # in the middle of an exec: the next look will tell
                continue
            mark, rank = variables.get(MARK.encode()), variables.get(b"HOROVOD_RANK", b"")
            if mark is None:
                if now - self._first_seen.setdefault(pid, now) > _SETTLED_S:
                    self._strangers.add(pid)
                    del self._first_seen[pid]
            elif rank.isdigit() and len(rank) < 8:  # a rank's own children may set any value
                self._ranks[pid] = _Process((mark.decode("utf-8", "replace"), int(rank)))


def _usage_of(pid: int) -> tuple[int, int, int] | None:
    """The start of a living process, the clock ticks that it has used, and its resident pages.

    From proc_pid_stat(5), but for the pages: the kernel only estimates them there, and is 100 MB off on large machines.
    """
    try:
        fields = _content(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)  # the name before may hold anything
        pages = _content(f"/proc/{pid}/statm").split(None, 2)[1]
    except (OSError, IndexError):
        return None
    if len(fields) < 20 or fields[0] in b"ZX":
        return None
    return int(fields[19]), int(fields[11]) + int(fields[12]), int(pages)


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(2048)


def _added(total: RankReading | None, more: RankReading) -> RankReading:
    if total is None:
        return more
    shares = [share for share in (total.cpu_percent, more.cpu_percent) if share is not None]
    return RankReading(sum(shares) if shares else None, total.memory_bytes + more.memory_bytes)
