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
    assert first.begin() is None
    known = save(first, 10)
    assert first.saved(10, RunState(epochs=1, steps=10)) == (1, 100 + (tmp_path / "script.json").stat().st_size)
    save(first, 20)  # it was killed before it told
    second = Checkpoints(tmp_path, attempt=2, keep=3)
    assert second.begin() == known
    assert second.state_at(10) == RunState(epochs=1, steps=10)
    assert second.state_at(20) == RunState()
    later = save(second, 21)
    second.saved(21, RunState(steps=21))
    assert second.begin() == known, "a rank that begins later begins with the same"
    assert Checkpoints(tmp_path, attempt=3, keep=3).begin() == later


def test_the_checkpoint_that_an_attempt_began_with_stays_until_the_next_one(tmp_path: Path) -> None:
    first = Checkpoints(tmp_path, attempt=1, keep=1)
    begun_with = save(first, 1)
    first.saved(1, RunState())
    second = Checkpoints(tmp_path, attempt=2, keep=1)
    assert second.begin() == begun_with
    for step in (2, 3):
        newest = save(second, step)
        assert second.saved(step, RunState(steps=step))[0] == 2
    assert (begun_with.exists(), (second.own / "step-0000000002").exists()) == (True, False)
    assert Checkpoints(tmp_path, attempt=2, keep=1).begin() == begun_with
    third = Checkpoints(tmp_path, attempt=3, keep=1)
    assert third.begin() == newest
    assert third.state_at(3) == RunState(steps=3)
    save(third, 4)
    assert third.saved(4, RunState())[0] == 2
    assert (begun_with.exists(), newest.exists()) == (False, True)


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
