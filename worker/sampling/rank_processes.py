"""Finds the processes of the ranks on this host for the sampler, and measures what they use.

A rank is recognised by its environment: the attempt's mark and Horovod's number. All processes of the host are checked
only while a rank is not found yet, and every few seconds for processes that ranks have started. In between only the
ranks' processes are read.
"""

import os
import time
from collections import Counter, defaultdict
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

    def of_slot(self, slots: int) -> "RankReading":
        """The part of one slot, if the rank has so many."""
        percent = None if self.cpu_percent is None else self.cpu_percent / slots
        return RankReading(percent, self.memory_bytes // slots)


@dataclass
class _Process:
    """A process of a rank; which one had this pid, and what it had used at the last reading."""

    key: RankKey
    usage: "_Usage | None" = None


@dataclass(frozen=True)
class _Usage:
    """What a process has used. `ticks` of the clock by itself, `waited_ticks` by its children that have ended."""

    started: int
    ticks: int
    waited_ticks: int
    pages: int

    @property
    def all_ticks(self) -> int:
        return self.ticks + self.waited_ticks


@dataclass
class _Spent:
    """The ticks of a rank since the last reading. `all_ticks` has those of children, also of short-lived ones.

    When a process of the rank ends, its parent gets all its ticks as a child's. So those that were counted before are
    taken away, and nothing is left if it had another parent: then the ticks of the living are the least.
    """

    ticks: int = 0
    all_ticks: int = 0
    is_known: bool = False

    def add(self, before: _Usage, now: _Usage) -> None:
        self.ticks += now.ticks - before.ticks
        self.all_ticks += now.all_ticks - before.all_ticks
        self.is_known = True

    def percent(self, elapsed_s: float) -> float | None:
        return 100 * max(self.ticks, self.all_ticks) / _TICKS_PER_S / elapsed_s if self.is_known else None


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
        spent, pages = defaultdict[RankKey, _Spent](_Spent), Counter[RankKey]()
        for pid, process in list(self._ranks.items()):
            usage, before = _usage_of(pid), process.usage
            if usage is None or (
                before is not None and before.started != usage.started
            ):  # gone, or another has its pid
                del self._ranks[pid]
                if before is not None:
                    spent[process.key].all_ticks -= before.all_ticks
                continue
            process.usage = usage
            pages[process.key] += usage.pages
            if before is not None:
                spent[process.key].add(before, usage)
        return {key: RankReading(spent[key].percent(elapsed_s), count * _PAGE_BYTES) for key, count in pages.items()}

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


def _usage_of(pid: int) -> _Usage | None:
    """What a living process has used.

    From proc_pid_stat(5), but for the pages: the kernel only estimates them there, and is 100 MB off on large machines.
    """
    try:
        fields = _content(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)  # the name before may hold anything
        pages = _content(f"/proc/{pid}/statm").split(None, 2)[1]
    except (OSError, IndexError):
        return None
    if len(fields) < 20 or fields[0] in b"ZX":
        return None
    own_user, own_system, waited_user, waited_system = map(int, fields[11:15])
    return _Usage(int(fields[19]), own_user + own_system, waited_user + waited_system, int(pages))


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(2048)
