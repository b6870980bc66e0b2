"""A round of chaos: forty jobs, and everything that can die while they train. Longer: `make chaos SEED=n ROUNDS=n`."""

from pathlib import Path

import pytest

from tests.chaos.round import play
from tests.chaos.script import script_of

SEED = 1


@pytest.mark.timeout(900)  # it takes some minutes, and more where others use the cores
def test_whatever_dies_no_job_is_lost_none_runs_twice_and_nothing_stays_behind(short_folder: Path) -> None:
    played = play(script_of(SEED), short_folder / "chaos")
    assert not played.wrong, "\n".join([*played.told, "", *played.wrong])
