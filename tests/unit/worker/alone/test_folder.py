"""The folder of a run: it belongs to one spec and to one job at a time, and tells how its attempts ended."""

import errno
import fcntl
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.model.runs import RunAttempt, RunNode
from jobs.model.spec import spec_from
from jobs.runtime.run_folders import FolderInUse
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
    with pytest.raises(FolderInUse, match="a job trains in"):
        folder.lock()
    os.close(lock)
    os.close(folder.lock())


@pytest.mark.parametrize("fault", [errno.ENOSYS, errno.ENOLCK])
def test_storage_without_locks_is_refused_in_words(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(FolderInUse, match=r"has no locks \(flock\)"):
        folder.lock()


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_in_which_others_may_write_is_refused(folder: RunFolder, mode: int) -> None:
    folder.path.mkdir(parents=True)
    folder.path.chmod(mode)
    with pytest.raises(FolderRefused, match=r"other users may write in .* chmod go-w"):
        folder.lock()
    assert list(folder.path.iterdir()) == []


def test_a_folder_of_another_user_is_refused(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.path.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.path.stat().st_uid + 1)
    with pytest.raises(FolderRefused, match="belongs to another user"):
        folder.lock()
    assert list(folder.path.iterdir()) == []


def test_links_are_not_followed_when_it_is_written(folder: RunFolder, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.close(folder.lock())
    folder.paths(1).create()
    for file in (folder.path / "run.new", folder.paths(1).root / "attempt.new"):
        file.symlink_to(victim)
    folder.open_run(SPEC)
    (folder.paths(1).root / "attempt.json").symlink_to(victim)
    folder.store(ATTEMPT)
    assert (victim.read_text(), folder.attempts()) == ("precious", [ATTEMPT])


def test_what_is_written_is_on_disk_before_it_has_its_name(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.paths(1).create()
    calls: list[str] = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, call=call: [calls.append(name), call(*args)])
    folder.store(ATTEMPT)
    assert calls[:2] == ["fsync", "replace"]


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
    ended = folder.end_lost(ATTEMPT)
    assert folder.attempts() == [ended]
    assert (ended.reason, ended.ended_at, ended.is_complete) == ("host_lost", last, False)


def test_it_did_not_end_later_than_now_whatever_clock_the_storage_has(folder: RunFolder) -> None:
    paths = folder.paths(1)
    paths.create()
    ahead = (datetime.now(UTC) + timedelta(hours=2)).timestamp()
    (paths.records / "rank-1.jsonl").touch()
    os.utime(paths.records / "rank-1.jsonl", (ahead, ahead))
    ended_at = folder.end_lost(ATTEMPT).ended_at
    assert ended_at is not None
    assert ended_at <= datetime.now(UTC)


def test_one_that_wrote_nothing_ended_when_it_began(folder: RunFolder) -> None:
    folder.paths(1).create()
    folder.store(ATTEMPT)
    folder.end_lost(ATTEMPT)
    assert folder.attempts()[0].ended_at == BEGAN
