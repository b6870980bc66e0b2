"""Readings of the whole host: processors, memory, network and disks, from /proc. Used by the sampler.

Every byte is counted once: only network interfaces and disks with hardware count, not the bridges, loops, partitions
and volumes above them. A container has only interfaces without hardware; there all but loopback count.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

_Value = TypeVar("_Value")

_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own sectors are
_MOST_NAMES = 1000  # that are kept in mind


class HostReading(NamedTuple):
    """One reading of the host. Rates are since the previous reading. What cannot be read is None."""

    cpu_percent: float | None = None  # of all cores
    memory_bytes: int | None = None  # in use: what is not available to a new process
    network_received_bytes_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_written_bytes_per_s: float | None = None


class Moved(NamedTuple):
    """Bytes since the start of the machine, into it and out of it: received and sent, or read and written."""

    into: int
    out: int


@dataclass
class HostReadings:
    """Reads the host repeatedly. `root` is the folder with /proc and /sys."""

    root: Path = Path("/")
    _before: dict[str, tuple[float, Moved]] = field(default_factory=dict)
    _has_hardware: dict[str, bool] = field(default_factory=dict)

    def read(self) -> HostReading:
        """One reading; the first one has no rates yet."""
        busy, total = self._moved_since_last("processors", lambda: processor_ticks(self._text("proc/stat"))) or (0, 0)
        received_per_s, sent_per_s = self._rates(
            "network", lambda: network_bytes(self._text("proc/net/dev"), self._is_real_net)
        )
        read_per_s, written_per_s = self._rates(
            "disks", lambda: disk_bytes(self._text("proc/diskstats"), self._is_real_disk)
        )
        return HostReading(
            cpu_percent=100 * busy / total if 0 <= busy <= total and total else None,
            memory_bytes=_guarded(lambda: memory_in_use(self._text("proc/meminfo"))),
            network_received_bytes_per_s=received_per_s,
            network_sent_bytes_per_s=sent_per_s,
            disk_read_bytes_per_s=read_per_s,
            disk_written_bytes_per_s=written_per_s,
        )

    def _rates(self, counter: str, count: Callable[[], Moved | None]) -> tuple[float | None, float | None]:
        """Rates per second. None if nothing can be counted, and for a counter that was reset."""
        before = self._before.get(counter)
        moved = self._moved_since_last(counter, count)
        if moved is None or before is None:
            return None, None
        elapsed_s = self._before[counter][0] - before[0]
        into, out = (number / elapsed_s if number >= 0 else None for number in moved)
        return into, out

    def _moved_since_last(self, counter: str, count: Callable[[], Moved | None]) -> Moved | None:
        """What was counted since the last look; None at the first."""
        before, now = self._before.pop(counter, None), _guarded(count)
        if now is None:
            return None
        self._before[counter] = time.monotonic(), now
        return None if before is None else Moved(now.into - before[1].into, now.out - before[1].out)

    def _text(self, name: str) -> bytes:
        with open(self.root / name, "rb", buffering=0) as file:
            return b"".join(iter(lambda: file.read(65536), b""))

    def _is_real_net(self, name: str) -> bool:
        return self._is_real(f"sys/class/net/{name}/device")

    def _is_real_disk(self, name: str) -> bool:
        return self._is_real(f"sys/block/{name}/device")

    def _is_real(self, link: str) -> bool:
        if len(self._has_hardware) > _MOST_NAMES:  # containers come and go, and their interfaces with them
            self._has_hardware.clear()
        if link not in self._has_hardware:
            self._has_hardware[link] = os.path.exists(self.root / link)
        return self._has_hardware[link]


def processor_ticks(stat: bytes) -> Moved:
    """Busy and all clock ticks of all processors, of /proc/stat (proc_stat(5))."""
    # user nice system idle iowait irq softirq steal; what guests use is in `user` already
    ticks = [int(number) for number in stat.split(b"\n", 1)[0].split()[1:9]]
    return Moved(sum(ticks) - sum(ticks[3:5]), sum(ticks))


def memory_in_use(meminfo: bytes) -> int:
    """Of /proc/meminfo (proc_meminfo(5))."""
    return 1024 * (_kilobytes(meminfo, b"MemTotal:") - _kilobytes(meminfo, b"MemAvailable:"))


def _kilobytes(meminfo: bytes, name: bytes) -> int:
    return int(meminfo.partition(name)[2].split(None, 1)[0])


def network_bytes(dev: bytes, is_real: Callable[[str], bool]) -> Moved | None:
    """Of /proc/net/dev: of interfaces with hardware, or where none has any of all but loopback; None without one."""
    by_name = dict(_interfaces(dev))
    by_name.pop("lo", None)
    return _total({name: moved for name, moved in by_name.items() if is_real(name)} or by_name)


def _interfaces(dev: bytes) -> Iterator[tuple[str, Moved]]:
    for line in dev.splitlines()[2:]:
        name, _, counts = line.partition(b":")
        fields = counts.split(None, 9)
        yield name.strip().decode("utf-8", "replace"), Moved(int(fields[0]), int(fields[8]))


def disk_bytes(diskstats: bytes, is_real: Callable[[str], bool]) -> Moved | None:
    """Of /proc/diskstats (proc_diskstats(5)); None where it has no disk."""
    by_name = {}
    for line in diskstats.splitlines():
        fields = line.split(None, 10)
        name = fields[2].decode("utf-8", "replace")
        if is_real(name):
            by_name[name] = Moved(int(fields[5]) * _SECTOR_BYTES, int(fields[9]) * _SECTOR_BYTES)
    return _total(by_name)


def _total(moved: Mapping[str, Moved]) -> Moved | None:
    if not moved:
        return None
    return Moved(sum(one.into for one in moved.values()), sum(one.out for one in moved.values()))


def _guarded(count: Callable[[], _Value]) -> _Value | None:
    try:
        return count()
    except (OSError, ValueError, IndexError):  # not there, or of another form
        return None
