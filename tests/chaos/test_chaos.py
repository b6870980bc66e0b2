"""A round of chaos: everything that can die, while twenty jobs train. Forty jobs: `make chaos SEED=n ROUNDS=n`."""

from pathlib import Path

import pytest

from tests.chaos.round import play
from tests.chaos.script import script_of

SEED, JOBS = 1, 20  # the fewest with which a round has every wish at every moment (`test_script`)


@pytest.mark.timeout(1800)  # it takes some two minutes, and more where others use the cores
def test_a_round_of_failures_loses_no_job_runs_none_twice_and_leaves_nothing_behind(short_folder: Path) -> None:
    played = play(script_of(SEED, jobs=JOBS), short_folder / "chaos")
    assert not played.wrong, "\n".join([*played.lines, "", *played.wrong])
