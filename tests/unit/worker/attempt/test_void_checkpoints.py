"""Checkpoints from which a job must not continue any more."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.script.checkpoints import Checkpoints
from worker.attempt.void_checkpoints import remove_void

_DEPTH = 1100  # more than Python calls in a row


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Attempt 1 of a script saved steps 10, 20 and 30; attempt 2 saved step 20."""
    root = tmp_path / "checkpoints"
    for attempt, step in ((1, 10), (1, 20), (1, 30), (2, 20)):
        folder = root / f"attempt-{attempt}" / f"step-{step:010d}"
        folder.mkdir(parents=True)
        (folder / "weights").write_text("w")
    yield root
    subprocess.run(["rm", "-rf", "--", str(root)], check=True)  # pytest cannot remove deep folders


def names(root: Path, attempt: int) -> list[str]:
    return sorted(path.name for path in (root / f"attempt-{attempt}").iterdir())


def nest(folder: Path) -> None:
    """Make a folder in a folder, and so on: a path of them all would be too long."""
    opened = os.open(folder, os.O_RDONLY)
    for _ in range(_DEPTH):
        os.mkdir("d", dir_fd=opened)
        inner = os.open("d", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(opened)


def test_void_folders_lose_their_name_and_rank_0_removes_them(root: Path) -> None:
    nest(root / "attempt-1" / "step-0000000020")
    remove_void(root, {1: 10, 2: None}, of_script=True)
    first, second, kept = names(root, 1)
    assert first.startswith(".unfinished-void-step-0000000020-")
    assert second.startswith(".unfinished-void-step-0000000030-")
    assert kept == "step-0000000010"
    assert names(root, 2) == ["step-0000000020"]
    Checkpoints(root, attempt=3, keep=2).remove_unfinished()
    assert names(root, 1) == ["step-0000000010"]
    assert names(root, 2) == ["step-0000000020"]


def test_a_step_is_void_a_second_time(root: Path) -> None:
    for _ in range(2):  # a rank that was cut off saves it again
        (root / "attempt-1" / "step-0000000020").mkdir(exist_ok=True)
        remove_void(root, {1: 10}, of_script=True)
    assert [name for name in names(root, 1) if not name.startswith(".")] == ["step-0000000010"]


def test_a_folder_that_cannot_be_renamed_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, _target: Path) -> None:
        raise PermissionError(f"{path.name} stays")

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(PermissionError, match="step-0000000030 stays"):
        remove_void(root, {1: 10}, of_script=True)
    assert (root / "attempt-1" / "step-0000000030" / "weights").exists()


def test_void_files_of_the_own_loop_go_at_once(root: Path) -> None:
    for step in (10, 20):
        (root / "attempt-1" / f"checkpoint-{step:010d}.npz").touch()
    remove_void(root, {1: 10}, of_script=False)
    assert [name for name in names(root, 1) if name.endswith(".npz")] == ["checkpoint-0000000010.npz"]
