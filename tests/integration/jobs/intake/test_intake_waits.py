"""A batch is few messages to the database. Each of them is a wait, and the supervisor shares its core with ranks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from jobs.db.engine import Sessions, engine_for
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease
from jobs.model.records import EpochEnded, Reported
from tests.integration.database_messages import waits
from tests.integration.jobs import code_rows, job_rows
from tests.integration.jobs.intake.rank_files import paths_for, rank_started, step_ended, write, write_log

STEP = 6  # BEGIN, the attempt, the job, the points in two, COMMIT


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """That of a supervisor: with one connection."""
    engine = engine_for(database, pool_size=1)
    yield engine
    engine.dispose()


@pytest.fixture(params=[False, True], ids=["loop", "script"])
def is_script(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def lease(sessions: Sessions, is_script: bool) -> Lease:
    script = {"code": code_rows.an_archive(sessions, b"of two files"), "command": ["python", "train.py"], "epochs": 20}
    return job_rows.a_claimed_attempt(sessions, **(script if is_script else {}))


@pytest.fixture
def stored_steps(
    engine: Engine, sessions: Sessions, tmp_path: Path, lease: Lease, is_script: bool
) -> Callable[..., int]:
    """Writes so many steps of each rank, and other things, and stores them. Returns how often that waits."""
    paths = paths_for(lease, tmp_path)
    intake, last = Intake(sessions, lease, paths, ranks=2), 0

    def store(count: int, *others: Any, lines: int = 0) -> int:
        nonlocal last
        for rank in (0, 1):
            for step in range(last + 1, last + count + 1):
                write(paths, rank, Reported(at=1.0, step=step, metrics={"mae": 1.0}) if is_script else step_ended(step))
        last += count
        write(paths, 0, *others)
        write_log(paths, 0, b"a line\n" * lines)
        return waits(engine, tmp_path, intake.store_new)

    store(1, rank_started(0))
    return store


@pytest.mark.parametrize("steps", [1, 4, 20, 1100], ids=lambda steps: f"{steps}-steps")
def test_steps_are_stored_with_five_statements(stored_steps: Callable[..., int], steps: int) -> None:
    merges = 2 if steps > 1000 else 0  # of each rank
    assert stored_steps(steps) == STEP + merges


def test_lines_and_ends_of_epochs_cost_no_more_than_a_copy(stored_steps: Callable[..., int], is_script: bool) -> None:
    ended = EpochEnded(at=5.0, epoch=1, step=9, wall_s=2.0, samples_per_s=9.0, learning_rate=0.1, metrics={"loss": 0.5})
    epoch = Reported(at=5.0, epoch=1, metrics={"val_mae": 0.5}) if is_script else ended
    assert stored_steps(3, lines=2) == STEP + 2
    assert stored_steps(3, lines=200) == STEP + 2
    assert stored_steps(3, epoch) == STEP + 1
