"""What the monkey does to clocks, disks, descriptors and the database is real, and is taken back."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.db.engine import engine_for
from jobs.runtime.processes import ProcessId
from tests.chaos import clocks, disks
from tests.chaos.clocks import Clock
from tests.chaos.databases import DatabasePair
from tests.chaos.descriptors import take_descriptors
from tests.chaos.disks import Disk
from tests.waiting import until

pytestmark = pytest.mark.long("faults")

HOUR_S = 3600
_SAY_TIMES = """
import sys, threading, time
for _ in sys.stdin:
    begun = time.monotonic()
    threading.Event().wait(0.05)
    time.sleep(0.05)
    print(time.time(), time.monotonic() - begun, flush=True)
"""
_SAY_ERRORS = """
import sys
for _ in sys.stdin:
    try:
        open("/dev/null").close()
        print(0, flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@pytest.mark.parametrize("loads_library", [True, False], ids=["a part", "a rank"])
def test_a_set_clock_moves_the_wall_clock_of_its_processes_and_no_wait(tmp_path: Path, loads_library: bool) -> None:
    if reason := clocks.reason_to_skip():
        pytest.skip(reason)
    clock = Clock(tmp_path / "clock")
    variables = clock.environment if loads_library else {"PYTHONPATH": str(clock.folder)}
    with subprocess.Popen(
        [sys.executable, "-c", _SAY_TIMES], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for ahead_s in (0, HOUR_S, -2 * HOUR_S, 0):
            clock.set(ahead_s)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            now, waited_s = map(float, process.stdout.readline().split())
            assert now - time.time() == pytest.approx(ahead_s, abs=60)
            assert 0.1 <= waited_s < 60
        process.stdin.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A mounted disk."""
    if reason := disks.reason_to_skip():
        pytest.skip(reason)
    disk = Disk(tmp_path / "runs")
    disk.mount()
    yield disk
    disk.unmount()
    assert not os.path.ismount(disk.path)


@pytest.mark.parametrize("inodes", [False, True], ids=["bytes", "inodes"])
def test_a_filled_disk_takes_nothing_until_it_is_emptied(disk: Disk, inodes: bool) -> None:
    before = disk.path / "before"
    before.write_bytes(b"")
    disk.fill(inodes=inodes)
    with pytest.raises(OSError, match="No space left") as caught:
        (disk.path / "new").write_bytes(b"x" * 100_000)
    assert caught.value.errno == errno.ENOSPC
    disk.empty()
    (disk.path / "new").write_bytes(b"x" * 100_000)
    assert {path.name for path in disk.path.iterdir()} == {"before", "new"}


def test_a_process_without_descriptors_opens_nothing_until_it_gets_them_back() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SAY_ERRORS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def opens() -> int:
            process.stdin.write("\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        assert opens() == 0
        process_id = ProcessId.of(process.pid)
        assert process_id is not None
        give_back = take_descriptors(process_id)
        assert opens() == errno.EMFILE
        give_back()
        assert opens() == 0
        process.stdin.close()


def test_what_a_pair_of_databases_confirmed_is_there_after_a_switch_over_and_after_the_way_back(
    short_folder: Path,
) -> None:
    pair = DatabasePair(short_folder / "database")
    pair.start()
    try:
        engine = engine_for(pair.url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE rounds (number int)")
        for number in range(2):
            with engine.begin() as connection:
                connection.exec_driver_sql("INSERT INTO rounds VALUES (%s)", (number,))
            until(lambda: "is the primary" in pair.switch_over(), what="a switch-over")
            with engine.begin() as connection:  # the old connection is dead: it is tested when it is taken
                assert connection.exec_driver_sql("SELECT count(*) FROM rounds").scalar_one() == number + 1
        engine.dispose()
    finally:
        pair.stop()
