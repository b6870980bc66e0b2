"""The folder of a run: it belongs to one spec and to one job at a time, and tells how its attempts ended."""

import errno
import fcntl
import os
from datetime import UTC, datetime
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


def test_storage_without_locks_is_refused_in_words(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(FolderInUse, match=r"has no locks \(flock\)"):
        folder.lock()


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777, 0o700])
def test_a_folder_of_another_user_or_in_which_others_may_write_is_refused(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    folder.path.mkdir(parents=True)
    folder.path.chmod(mode)
    if mode == 0o700:
        monkeypatch.setattr(os, "geteuid", lambda: folder.path.stat().st_uid + 1)
    refusal = "belongs to another user" if mode == 0o700 else r"other users may write in .* chmod go-w"
    with pytest.raises(FolderRefused, match=refusal):
        folder.lock()
    assert list(folder.path.iterdir()) == []


def test_links_are_not_followed_when_it_is_written_and_it_is_on_disk_before_it_has_its_name(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.close(folder.lock())
    folder.paths(1).create()
    for file in (folder.path / "run.new", folder.paths(1).root / "attempt.new"):
        file.symlink_to(victim)
    folder.open_run(SPEC)
    (folder.paths(1).root / "attempt.json").symlink_to(victim)
    calls: list[str] = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, call=call: [calls.append(name), call(*args)])
    folder.store(ATTEMPT)
    assert calls[:2] == ["fsync", "replace"]
    assert (victim.read_text(), folder.attempts()) == ("precious", [ATTEMPT])


def test_it_is_for_one_spec_with_any_number_of_ranks(folder: RunFolder) -> None:
    os.close(folder.lock())
    run = folder.open_run(SPEC)
    assert folder.open_run(SPEC.model_copy(update={"gpus": 8})) == run
    with pytest.raises(FolderRefused, match="the run of another spec"):
        folder.open_run(SPEC.model_copy(update={"epochs": 3}))
    (folder.path / "run.json").write_text("{")
    with pytest.raises(FolderRefused, match=r"run\.json is damaged"):
        folder.open_run(SPEC)


LAST = datetime(2026, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written_at", "ended_at"),
    [([BEGAN, LAST], LAST), ([], BEGAN), ([BEGAN, datetime(2999, 1, 1, tzinfo=UTC)], None)],
    ids=["with its last record", "it wrote nothing", "by a clock that is ahead: not later than now"],
)
def test_an_attempt_that_could_not_write_its_end_ended_with_its_last_record(
    folder: RunFolder, written_at: list[datetime], ended_at: datetime | None
) -> None:
    paths = folder.paths(1)
    paths.create()
    folder.store(ATTEMPT)
    assert folder.attempts() == [ATTEMPT]
    for rank, at in enumerate(written_at):
        (paths.records / f"rank-{rank}.jsonl").touch()
        os.utime(paths.records / f"rank-{rank}.jsonl", (at.timestamp(), at.timestamp()))
    ended = folder.end_lost(ATTEMPT)
    assert folder.attempts() == [ended]
    assert (ended.reason, ended.is_complete) == ("host_lost", False)
    assert ended.ended_at is not None
    assert ended.ended_at == ended_at or (ended_at is None and ended.ended_at <= datetime.now(UTC))
