"""An attempt of two ranks, its folder, and the intake that stores what the ranks write there."""

from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease
from tests.integration.jobs import job_rows
from tests.integration.jobs.intake.rank_files import paths_for
from worker.attempt.paths import AttemptPaths


@pytest.fixture
def lease(sessions: Sessions) -> Lease:
    return job_rows.a_claimed_attempt(sessions)


@pytest.fixture
def paths(tmp_path: Path, lease: Lease) -> AttemptPaths:
    return paths_for(lease, tmp_path)


@pytest.fixture
def intake(sessions: Sessions, lease: Lease, paths: AttemptPaths) -> Intake:
    return Intake(sessions, lease, paths, ranks=2)
