"""Readings of the files of /proc: of a host, of a container, and of malformed files."""

from pathlib import Path

import pytest

from worker.sampling import host_readings
from worker.sampling.host_readings import HostReading, HostReadings, Moved, disk_bytes, network_bytes

STAT = "cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 100 0 50 800 50 0 0 0 7 7\nintr 1 2 3\n"
MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\nBuffers:           1 kB\n"
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 9000 1 0 0 0 0 0 0 9000 1 0 0 0 0 0 0
  eth0:1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0
  eth1: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
docker0: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
"""
DISKS = """   7       0 loop0 5 0 5 0 5 0 5 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 10 0 1000 5 20 0 3000 5 0 5 5 0 0 0 0 0 0
 259       1 nvme0n1p1 10 0 1000 5 20 0 3000 5 0 5 5 0 0 0 0 0 0
 253       0 dm-0 10 0 1000 5 20 0 3000 5 0 5 5 0 0 0 0 0 0
   8       0 sda 1 0 8 5 2 0 16 5 0 5 5 0 0 0 0 0 0
"""


def test_only_interfaces_and_disks_with_hardware_are_counted_and_all_interfaces_of_a_container_but_loopback() -> None:
    assert network_bytes(NET.encode(), {"eth0", "eth1"}.__contains__) == Moved(1010, 220)
    assert network_bytes(NET.encode(), lambda _: False) == Moved(1510, 720)
    only_loopback = "\n".join(NET.splitlines()[:3])
    assert network_bytes(only_loopback.encode(), lambda _: False) is None
    assert disk_bytes(DISKS.encode(), {"nvme0n1", "sda"}.__contains__) == Moved(1008 * 512, 3016 * 512)
    assert disk_bytes(DISKS.encode(), lambda _: False) is None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the /proc and /sys of a machine."""
    (tmp_path / "proc/net").mkdir(parents=True)
    for device in ("sys/class/net/eth0", "sys/class/net/eth1", "sys/block/nvme0n1", "sys/block/sda"):
        (tmp_path / device / "device").mkdir(parents=True)
    for name, content in (("stat", STAT), ("meminfo", MEMINFO), ("net/dev", NET), ("diskstats", DISKS)):
        (tmp_path / "proc" / name).write_text(content)
    return tmp_path


def change(root: Path, name: str, *replaced: tuple[str, str]) -> None:
    path = root / "proc" / name
    content = path.read_text()
    for old, new in replaced:
        content = content.replace(old, new, 1)
    path.write_text(content)


def readings_of(root: Path, monkeypatch: pytest.MonkeyPatch) -> HostReadings:
    """Readings of `root`, with two seconds between one and the next."""
    clock = iter(range(1000))
    monkeypatch.setattr(host_readings.time, "monotonic", lambda: 2.0 * (next(clock) // 3))
    return HostReadings(root)


def test_rates_are_since_the_previous_reading(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = readings_of(root, monkeypatch)
    assert readings.read() == HostReading(memory_bytes=400 * 1024)
    change(root, "stat", ("100 0 50 800 50", "130 0 60 850 60"))  # 40 busy of 100 ticks
    change(root, "net/dev", ("1000", "1600"), (" 20 ", " 420 "))
    change(root, "diskstats", ("nvme0n1 10 0 1000 5 20 0 3000", "nvme0n1 10 0 1010 5 20 0 3100"))
    assert readings.read() == HostReading(40.0, 400 * 1024, 300.0, 200.0, 5 * 512, 50 * 512)
    assert readings.read() == HostReading(None, 400 * 1024, 0, 0, 0, 0)  # no tick has passed


def test_counter_that_was_reset_has_no_rate(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = readings_of(root, monkeypatch)
    readings.read()
    change(root, "net/dev", ("1000", "10"))
    change(root, "stat", ("100 0 50 800 50", "10 0 5 900 60"))
    reading = readings.read()
    assert (reading.network_received_bytes_per_s, reading.network_sent_bytes_per_s) == (None, 0)
    assert reading.cpu_percent is None


def test_missing_or_malformed_files_give_no_values(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = readings_of(root, monkeypatch)
    readings.read()
    (root / "proc/diskstats").unlink()
    change(root, "stat", ("cpu ", "nothing "))
    (root / "proc/meminfo").write_text("MemTotal: x kB")
    (root / "proc/net/dev").write_text("a\nb\nc\n")
    assert readings.read() == HostReading()
