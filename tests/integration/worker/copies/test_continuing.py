"""A job that continues another one: where its ranks find the checkpoint, which is not one of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.model.origins import Origin
from jobs.model.states import EndReason, EventKind
from jobs.runtime.checkpoint_folders import OTHER_JOB, attempt_folder, checkpoint_file, checkpoint_folder
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.copies.runs import Run, a_script_run, is_checkpoint, script_job, started
from worker.copies import continuing
from worker.copies.awaited_data import NotStarted
from worker.copies.fetching import Fetch, Fetched


@pytest.fixture
def before(run: Run) -> Run:
    """A job that ended on host `ha`, and saved at the end of epochs 1 and 2."""
    run.save(10, epoch=1)
    run.save(20, epoch=2)
    run.end(EndReason.CANCELLED)
    return run


def continued(before: Run, settings: Settings) -> Run:
    job_id = job_rows.a_job(before.sessions, continue_from=f"job:{before.job_id}@2")
    return started(before.sessions, before.store, settings, job_id)


def bring(run: Run, before: Run, *, epoch: int = 2, is_script: bool = False, has_store: bool = True) -> Fetched | None:
    fetch = Fetch(run.sessions, run.store, run.paths, run.settings, still_needed=lambda: True) if has_store else None
    origin = Origin(before.job_id, epoch)
    return continuing.bring(
        run.sessions, run.settings, run.paths, origin, is_script=is_script, fetch=fetch, still_needed=lambda: True
    )


def brought_file(run: Run, step: int) -> Path:
    return checkpoint_file(attempt_folder(run.paths.checkpoints, OTHER_JOB), step)


@pytest.mark.parametrize("epoch", [1, 2])
def test_it_comes_from_the_disk_of_the_host(before: Run, epoch: int) -> None:
    run = continued(before, before.settings)
    assert bring(run, before, epoch=epoch, has_store=False) is None
    assert is_checkpoint(brought_file(run, 10 * epoch), 10 * epoch)
    assert is_checkpoint(checkpoint_file(before.paths.own_checkpoints, 20), 20), "the other job keeps its own"


def test_it_comes_from_the_store_to_another_host_and_again_until_the_job_has_its_own(
    before: Run, other: Settings
) -> None:
    before.copy()
    run = continued(before, other)
    fetched = bring(run, before)
    assert fetched is not None
    assert (fetched.to_event()["job"], fetched.to_event()["step"]) == (before.job_id, 20)
    assert is_checkpoint(brought_file(run, 20), 20)
    assert bring(run, before) is None
    brought_file(run, 20).unlink()
    assert bring(run, before) is not None
    brought_file(run, 20).unlink()
    run.save(30)
    assert bring(run, before) is None
    assert not brought_file(run, 20).exists()


def test_steps_that_a_later_attempt_trained_again_are_not_taken(before: Run) -> None:
    """Attempt 1 saved step 20 of epoch 2 here, but attempt 2 went back to step 10 elsewhere."""
    second = job_rows.a_job(before.sessions)
    first = started(before.sessions, before.store, before.settings, second, resumed_step=0)
    first.save(20, epoch=2)
    first.end(EndReason.RANK_FAILED)
    later = first.next(before.settings, resumed_step=10)
    later.end(EndReason.CANCELLED)
    run = continued(first, before.settings)
    with pytest.raises(NotStarted, match="no checkpoint of epoch 2"):
        bring(run, first, has_store=False)


def test_a_host_without_it_says_which_host_had_it(before: Run, other: Settings) -> None:
    run = continued(before, other)
    with pytest.raises(NotStarted) as raised:
        bring(run, before, has_store=False)
    assert raised.value.ending.reason is EndReason.LAUNCH_FAILED
    assert "host ha had it, set HORA_STORE" in str(raised.value)


def test_the_copier_does_not_take_it_for_a_checkpoint_of_the_job(before: Run) -> None:
    run = continued(before, before.settings)
    bring(run, before, has_store=False)
    run.end(EndReason.CANCELLED)  # before it saved any
    run.copy()
    assert run.copied() == set()
    assert run.events(EventKind.COPIES_BEHIND) == []


def test_a_script_gets_a_copy_and_its_rank_what_is_not_of_the_job_before_alone(
    sessions: Sessions, store: Store, host: Callable[[str], Settings]
) -> None:
    before = a_script_run(sessions, store, host("ha"))
    saved = before.save_script(7, {"a/weights.bin": b"w" * 5000})
    states = {"7": {"epochs": 7, "wall_s": 9.0, "steps": 7, "best": 0.5, "waited": 3}}
    (before.paths.checkpoints / "script.json").write_text(json.dumps(states))
    before.end(EndReason.EARLY_STOPPED)
    run = started(sessions, store, before.settings, script_job(sessions))
    assert bring(run, before, epoch=7, is_script=True, has_store=False) is None
    place = checkpoint_folder(attempt_folder(run.paths.checkpoints, OTHER_JOB), 7)
    assert (place / "a" / "weights.bin").read_bytes() == b"w" * 5000
    assert (place / "a" / "weights.bin").stat().st_ino != (saved / "a" / "weights.bin").stat().st_ino
    known = json.loads((run.paths.checkpoints / "script.json").read_text())
    assert known == {"7": {"epochs": 7, "best": 0.5, "waited": 0}}
