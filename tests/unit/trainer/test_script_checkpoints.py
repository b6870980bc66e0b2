"""The checkpoints of a script, as its rank sees them."""

from pathlib import Path

from trainer.script.checkpoints import Checkpoints, RunState


def save(checkpoints: Checkpoints, step: int) -> Path:
    folder = checkpoints.own / f"step-{step:010d}"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(100))
    return folder


def test_a_job_continues_from_the_newest_checkpoint_that_its_rank_was_told_of(tmp_path: Path) -> None:
    first = Checkpoints(tmp_path, attempt=1, keep=3)
    assert first.newest() is None
    known = save(first, 10)
    assert first.saved(10, RunState(epochs=1, steps=10)) == (1, 100 + (tmp_path / "script.json").stat().st_size)
    save(first, 20)  # it was killed before it told
    second = Checkpoints(tmp_path, attempt=2, keep=3)
    assert second.newest() == known
    assert second.state_at(10) == RunState(epochs=1, steps=10)
    assert second.state_at(20) == RunState()
    again = save(second, 20)
    second.saved(20, RunState(steps=20))
    assert second.newest() == again


def test_the_oldest_go_and_unfinished_ones_of_earlier_attempts(tmp_path: Path) -> None:
    first = Checkpoints(tmp_path, attempt=1, keep=2)
    for step in (1, 2, 3):
        save(first, step)
        first.saved(step, RunState(steps=step))
    (first.own / ".unfinished-0000000004-7").mkdir()
    first.remove_unfinished()
    assert sorted(path.name for path in first.own.iterdir()) == [
        ".unfinished-0000000004-7", "step-0000000002", "step-0000000003",
    ]  # fmt: skip
    Checkpoints(tmp_path, attempt=2, keep=2).remove_unfinished()
    assert sorted(path.name for path in first.own.iterdir()) == ["step-0000000002", "step-0000000003"]
