"""A round of chaos, and that what the monkey does to clocks, disks and the database is real, and is taken back.

`make chaos SEED=n ROUNDS=n` has twice as many jobs; with SHARES=1 users preempt each other.
"""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.db.engine import engine_for
from tests.chaos import clocks, disks
from tests.chaos.clocks import Clock
from tests.chaos.databases import DatabasePair
from tests.chaos.disks import Disk
from tests.waiting import until

pytestmark = pytest.mark.long("faults")

ROOT = Path(__file__).parents[2]
SEED, JOBS = 1, 20  # the fewest jobs with which a round has every wish at every moment (see `test_verdict`)


@pytest.mark.timeout(1800)  # it takes about three minutes, and longer on a busy machine
def test_a_round_of_failures_loses_no_job_runs_none_twice_and_leaves_nothing_behind() -> None:
    round_of_chaos = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--jobs", str(JOBS)]
    done = subprocess.run(round_of_chaos, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


HOUR_S = 3600
_SAY_TIMES = """
import sys, threading, time
for _ in sys.stdin:
    begun = time.monotonic()
    threading.Event().wait(0.05)
    time.sleep(0.05)
    print(time.time(), time.monotonic() - begun, flush=True)
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
