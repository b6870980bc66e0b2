"""Checkpoints: written whole, the newest kept, damaged ones skipped, and attempts kept apart."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from trainer.checkpoint import Checkpoint, CheckpointStore, atomic_write, saved_in
from trainer.errors import StorageTooSmall
from trainer.state import Progress, State, Stopping
from trainer.storage import require_storage

SHAPES = {"model": [(2, 3), ()]}


def checkpoint(step: int) -> Checkpoint:
    state = State(
        ranks=2,
        global_batch=64,
        progress=Progress(epoch=3, step=step, epoch_step=4, sums=[0.1 + 0.2, 0.1]),
        stopping=Stopping(best=0.9, best_epoch=2, best_metrics={"val_accuracy": 0.9}, wait=1),
    )
    return Checkpoint(state, {"model": [np.full((2, 3), step, np.float32), np.array(step)]})


def store_of(root: Path, attempt: int, *, keep: int = 2) -> CheckpointStore:
    return CheckpointStore(root, attempt=attempt, keep=keep)


def begun(root: Path, attempt: int, *, at: int | None) -> CheckpointStore:
    """The store of an attempt that begins now and continues from step `at`; None: from the start."""
    store = store_of(root, attempt)
    found = store.begin(SHAPES)
    assert (None if found is None else found.state.progress.step) == at
    return store


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = store_of(tmp_path, 1)
    assert store.begin(SHAPES) is None
    store.save(checkpoint(7))
    found = store_of(tmp_path, 2).begin(SHAPES)
    assert found is not None
    assert found.state == checkpoint(7).state
    assert [array.tolist() for array in found.arrays["model"]] == [[[7.0] * 3] * 2, 7]


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    store = begun(tmp_path, 1, at=None)
    (tmp_path / "attempt-1/.tmp-checkpoint-0000000008.npz").write_text("left by a rank that was killed")
    for step in (9, 10, 100):
        store.save(checkpoint(step))
    assert names(tmp_path / "attempt-1") == ["checkpoint-0000000010.npz", "checkpoint-0000000100.npz"]


def test_fewer_checkpoints_are_kept_when_the_job_may_keep_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "checkpoints"
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "events").write_bytes(bytes(10_000))
    arrays = {"model": [np.zeros(25_000, np.float32)]}  # 100 kB
    for limit_bytes, kept in ((1_000_000, [1, 2, 3, 4]), (330_000, [3, 4, 5]), (50_000, [6])):
        store = CheckpointStore(root, attempt=1, keep=4, limit_bytes=limit_bytes)
        step = kept[-1]
        for number in range(1, 5) if step == 4 else [step]:
            store.save(Checkpoint(checkpoint(number).state, arrays))
        assert [int(path.stem.partition("-")[2]) for path in reversed(saved_in(root / "attempt-1"))] == kept
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"warning: keeping {count} of 4 checkpoints: one has 0.0001 GB, and a job may keep {limit} GB on a host "
        "(HORA_MAX_JOB_STORAGE_GB)"
        for count, limit in ((3, "0.00033"), (1, "5e-05"))
    ]


def test_checkpoints_leave_room_for_the_artifacts_and_temporary_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "attempt-1" / "tmp").mkdir(parents=True)
    (tmp_path / "attempt-1" / "tmp" / "decoded").write_bytes(bytes(1_000_000))
    root, arrays = tmp_path / "checkpoints", {"model": [np.zeros(25_000, np.float32)]}  # 100 kB
    store = CheckpointStore(root, attempt=1, keep=4, limit_bytes=450_000, artifact_bytes=200_000)
    for number in range(1, 5):
        store.save(Checkpoint(checkpoint(number).state, arrays))
    assert [int(path.stem.partition("-")[2]) for path in saved_in(root / "attempt-1")] == [4, 3]


def test_a_job_whose_checkpoint_and_artifacts_do_not_fit_is_refused_before_training() -> None:
    sizes = {"checkpoint_bytes": 2_000_000_000, "artifact_bytes": 1_000_000_000}
    require_storage(**sizes, limit_bytes=None)
    require_storage(**sizes, limit_bytes=3_000_000_000)
    with pytest.raises(StorageTooSmall, match=r"have 2,000 GB, and a job may keep 2\.5 GB on a host"):
        require_storage(checkpoint_bytes=2 * 10**12, artifact_bytes=0, limit_bytes=2_500_000_000)
    with pytest.raises(StorageTooSmall, match=r"of this job have 3 GB, and a job may keep 2\.5 GB on a host"):
        require_storage(**sizes, limit_bytes=2_500_000_000)


def test_attempt_takes_over_the_checkpoints_of_the_previous_attempt(tmp_path: Path) -> None:
    first = begun(tmp_path, 1, at=None)
    for step in (1, 2, 3):
        first.save(checkpoint(step))
    begun(tmp_path, 2, at=3)
    assert names(tmp_path) == ["attempt-2"]
    assert names(tmp_path / "attempt-2") == ["checkpoint-0000000002.npz", "checkpoint-0000000003.npz"]


def test_checkpoints_of_a_stale_attempt_change_nothing(tmp_path: Path) -> None:
    stale = begun(tmp_path, 1, at=None)
    stale.save(checkpoint(10))
    second = begun(tmp_path, 2, at=10)
    stale.save(checkpoint(90))
    second.save(checkpoint(20))
    stale.save(checkpoint(91))
    begun(tmp_path, 3, at=20)
    stale.save(checkpoint(92))
    begun(tmp_path, 4, at=20)  # attempt 3 saved nothing, and passes on what it began with


def test_attempt_begins_anew_when_the_previous_attempt_did(tmp_path: Path) -> None:
    """Earlier records are void by then, so an earlier checkpoint would leave a hole in the curve."""
    stale = begun(tmp_path, 1, at=None)
    begun(tmp_path, 2, at=None)
    stale.save(checkpoint(90))
    begun(tmp_path, 3, at=None)


def test_a_stale_attempt_that_begins_late_takes_nothing_from_a_newer_one(tmp_path: Path) -> None:
    begun(tmp_path, 1, at=None).save(checkpoint(10))
    begun(tmp_path, 3, at=10).save(checkpoint(20))
    begun(tmp_path, 2, at=None).save(checkpoint(99))
    begun(tmp_path, 4, at=20)


def test_take_over_is_retried_when_another_attempt_removes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, 1, at=None).save(checkpoint(10))
    link = os.link

    def overtaken(path: Path, name: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        begun(tmp_path, 2, at=10)  # removes the folder of the file that is linked here
        link(path, name)

    monkeypatch.setattr(os, "link", overtaken)
    begun(tmp_path, 3, at=10)
    assert names(tmp_path) == ["attempt-3"]


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path, 1, at=None).save(checkpoint(10))

    def refuse(path: Path, name: Path) -> None:
        raise OSError(errno.EXDEV, "cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    begun(tmp_path, 2, at=10)
    monkeypatch.undo()
    begun(tmp_path, 3, at=10)


def test_checkpoints_outside_attempt_folders_are_found(tmp_path: Path) -> None:
    store_of(tmp_path, 1).save(checkpoint(5))
    (tmp_path / "attempt-1/checkpoint-0000000005.npz").rename(tmp_path / "checkpoint-0000000005.npz")
    (tmp_path / "attempt-1").rmdir()
    begun(tmp_path, 2, at=5)
    assert names(tmp_path) == ["attempt-2"]


def test_an_interrupted_take_over_does_not_hide_the_checkpoint(tmp_path: Path) -> None:
    begun(tmp_path, 1, at=None).save(checkpoint(10))
    half = tmp_path / ".tmp-attempt-2"
    half.mkdir()
    (half / "checkpoint-0000000010.npz").write_text("half")
    begun(tmp_path, 3, at=10)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_checkpoint_is_skipped_with_a_log_line(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path, 1, keep=3)
    store.save(checkpoint(1))
    path = store.save(checkpoint(2))
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[content.index(np.full((2, 3), 2, np.float32).tobytes())] ^= 1
    elif damage == "cut":
        del content[-30:]
    else:
        content[:] = b"" if damage == "empty" else b"PK nonsense"
    path.write_bytes(content)
    begun(tmp_path, 2, at=1)
    assert "checkpoint-0000000002.npz is skipped" in capsys.readouterr().out
    assert names(tmp_path / "attempt-2") == ["checkpoint-0000000001.npz"]  # the damaged one would hide those to come


def test_damaged_checkpoint_is_not_deleted_when_all_are_damaged(tmp_path: Path) -> None:
    path = store_of(tmp_path, 1).save(checkpoint(2))
    path.write_text("nonsense")
    begun(tmp_path, 2, at=None).save(checkpoint(1))
    assert path.exists()
    begun(tmp_path, 3, at=1)


def test_a_checkpoint_of_another_model_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_of(tmp_path, 1).save(checkpoint(1))
    assert store_of(tmp_path, 2).begin({"model": [(5, 5)]}) is None
    assert "another model" in capsys.readouterr().out


def test_a_file_gets_its_name_when_it_is_whole_and_a_write_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(text: str, *, fails: bool) -> None:
        with atomic_write(path) as temporary:
            temporary.write_text(text)
            assert path.exists() == fails
            if fails:
                raise OSError("disk full")

    write("old", fails=False)
    with pytest.raises(OSError, match="disk full"):
        write("half", fails=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_checkpoint_of_another_job_stays_apart_until_there_are_enough_own_ones(tmp_path: Path) -> None:
    store_of(tmp_path, 0).save(checkpoint(40))  # as `worker.copies.continuing` puts it there
    store = begun(tmp_path, 1, at=None)
    assert store.of_other_job(SHAPES).state == checkpoint(40).state
    with pytest.raises(ValueError, match="of another model: model has other shapes"):
        store.of_other_job({"model": [(3, 3), ()]})
    store.save(checkpoint(50))
    assert names(tmp_path) == ["attempt-0", "attempt-1"]
    assert names(tmp_path / "attempt-1") == ["checkpoint-0000000050.npz"]
    store.save(checkpoint(60))
    assert names(tmp_path) == ["attempt-1"]
    with pytest.raises(LookupError):
        store.of_other_job(SHAPES)
    begun(tmp_path, 2, at=60)
