"""Checkpoints: whole or not there, the newest kept, damaged ones skipped."""

import os
from pathlib import Path

import numpy as np
import pytest

from trainer.checkpoint import Checkpoint, CheckpointStore, Progress, State, Stopping, atomic_write

SHAPES = {"model": [(2, 3), ()]}


def checkpoint(step: int) -> Checkpoint:
    state = State(
        ranks=2,
        global_batch=64,
        progress=Progress(epoch=3, step=step, epoch_step=4, loss_sum=0.1 + 0.2),
        stopping=Stopping(best=0.9, best_epoch=2, best_metrics={"val_accuracy": 0.9}, wait=1),
    )
    return Checkpoint(state, {"model": [np.full((2, 3), step, np.float32), np.array(step)]})


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    store.save(checkpoint(7))
    found = store.newest(SHAPES)
    assert found is not None
    assert found.state == checkpoint(7).state
    assert [array.tolist() for array in found.arrays["model"]] == [[[7.0] * 3] * 2, 7]


def test_the_newest_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    (tmp_path / ".tmp-checkpoint-0000000008.npz").write_text("left by a rank that was killed")
    for step in (9, 10, 100):
        store.save(checkpoint(step))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-0000000010.npz", "checkpoint-0000000100.npz"]


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "missing", keep=2).newest(SHAPES) is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_one_is_skipped_with_a_log_line(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = CheckpointStore(tmp_path, keep=3)
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
    found = store.newest(SHAPES)
    assert found is not None
    assert found.state.progress.step == 1
    assert "checkpoint-0000000002.npz is skipped" in capsys.readouterr().out


def test_one_of_another_model_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    store.save(checkpoint(1))
    assert store.newest({"model": [(5, 5)]}) is None
    assert "another model" in capsys.readouterr().out


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_nothing_has_the_final_name_before_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"


def test_another_global_batch_goes_on_at_the_same_place_in_the_data() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(epoch_step=10, loss_sum=5.0, step=110))
    moved = state.on_plan(ranks=2, global_batch=128, steps_per_epoch=10).progress
    assert (moved.epoch_step, moved.loss_sum, moved.step) == (5, 2.5, 110)


def test_a_closed_epoch_starts_the_next_with_empty_sums() -> None:
    progress = Progress(epoch=2, step=20, epoch_step=10, loss_sum=1.0, epoch_timed_samples=640, epoch_train_s=2.0)
    progress.begin_next_epoch()
    assert progress == Progress(epoch=3, step=20, timed_samples=640, train_s=2.0)
