"""A round of chaos, and that what the monkey does to clocks is real, and is taken back.

`make chaos SEED=n ROUNDS=n` has twice as many jobs; with SHARES=1 users preempt each other.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos import clocks
from tests.chaos.clocks import Clock

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
