"""A round of chaos. `make chaos SEED=n ROUNDS=n` has twice as many jobs; with SHARES=1 users preempt each other."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long("faults")

ROOT = Path(__file__).parents[2]
SEED, JOBS = 1, 20  # the fewest jobs with which a round has every wish at every moment (see `test_script`)


@pytest.mark.timeout(1800)  # it takes about three minutes, and longer on a busy machine
def test_a_round_of_failures_loses_no_job_runs_none_twice_and_leaves_nothing_behind() -> None:
    round_of_chaos = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--jobs", str(JOBS)]
    done = subprocess.run(round_of_chaos, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
