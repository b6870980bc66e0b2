"""A round of chaos: every part is killed or stopped while twenty jobs train. `make chaos SEED=n ROUNDS=n` has forty."""

from pathlib import Path

import pytest

from tests.chaos.round import run_round
from tests.chaos.script import script_of

SEED, JOBS = 1, 20  # the fewest jobs with which a round has every wish at every moment (see `test_script`)


@pytest.mark.timeout(1800)  # it takes about two minutes, and longer on a busy machine
def test_a_round_of_failures_loses_no_job_runs_none_twice_and_leaves_nothing_behind(short_folder: Path) -> None:
    result = run_round(script_of(SEED, jobs=JOBS), short_folder / "chaos")
    assert not result.failures, "\n".join([*result.lines, "", *result.failures])
