"""Rounds of chaos. `make chaos SEED=n ROUNDS=n` has twice as many jobs, and with SHARES=1 all faults."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.shares import KILLS

ROOT = Path(__file__).parents[2]
SEED, JOBS = 1, 20  # the fewest jobs with which a round has every wish at every moment (see `test_script`)


def run_round(*options: str) -> None:
    round_of_chaos = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), *options]
    done = subprocess.run(round_of_chaos, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(1800)  # it takes about three minutes, and longer on a busy machine
def test_a_round_of_failures_loses_no_job_runs_none_twice_and_leaves_nothing_behind() -> None:
    run_round("--jobs", str(JOBS))


@pytest.mark.timeout(1800)  # it takes about two minutes, and longer on a busy machine
def test_jobs_that_fair_shares_preempt_lose_nothing_while_parts_are_killed() -> None:
    kills = ",".join(harm.name.lower().replace("_", "-") for harm in KILLS)
    run_round("--shares", "--jobs", "6", "--harms", kills)
