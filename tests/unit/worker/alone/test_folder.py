"""The folder of a run: it belongs to one spec and to one job at a time, and tells how its attempts ended."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.model.runs import RunAttempt, RunNode
from jobs.model.spec import spec_from
from worker.alone.folder import FolderRefused, RunFolder

SPEC = spec_from({"dataset": "digits", "gpus": 2})
BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
ATTEMPT = RunAttempt(number=1, slurm_job=7, device="cpu", nodes=[RunNode(name="n1", ranks=2)], started_at=BEGAN)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "a" / "run")


def test_it_is_closed_and_for_one_job_at_a_time(folder: RunFolder) -> None:
    lock = folder.lock()
    assert folder.path.stat().st_mode & 0o077 == 0
    with pytest.raises(FolderRefused, match="another job trains in"):
        folder.lock()
    os.close(lock)
    os.close(folder.lock())


def test_it_is_for_one_spec_with_any_number_of_ranks(folder: RunFolder) -> None:
    os.close(folder.lock())
    run = folder.open_run(SPEC)
    assert folder.open_run(SPEC.model_copy(update={"gpus": 8})) == run
    with pytest.raises(FolderRefused, match="the run of another spec"):
        folder.open_run(SPEC.model_copy(update={"epochs": 3}))


def test_what_is_damaged_is_named(folder: RunFolder) -> None:
    os.close(folder.lock())
    (folder.path / "run.json").write_text("{")
    with pytest.raises(FolderRefused, match=r"run\.json is damaged"):
        folder.open_run(SPEC)


def test_an_attempt_that_could_not_write_its_end_ended_with_its_last_record(folder: RunFolder) -> None:
    paths = folder.paths(1)
    paths.create(range(2))
    folder.store(ATTEMPT)
    assert folder.attempts() == [ATTEMPT]
    last = datetime(2026, 1, 3, tzinfo=UTC)
    for file in paths.records.iterdir():
        os.utime(file, (BEGAN.timestamp(), BEGAN.timestamp()))
    (paths.records / "rank-1.jsonl").touch()
    os.utime(paths.records / "rank-1.jsonl", (last.timestamp(), last.timestamp()))
    folder.end_lost(ATTEMPT)
    (ended,) = folder.attempts()
    assert (ended.reason, ended.ended_at, ended.is_complete) == ("host_lost", last, False)


def test_one_that_wrote_nothing_ended_when_it_began(folder: RunFolder) -> None:
    folder.paths(1).create()
    folder.store(ATTEMPT)
    folder.end_lost(ATTEMPT)
    assert folder.attempts()[0].ended_at == BEGAN
