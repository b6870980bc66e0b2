"""What a script tells becomes the records of its rank, and the checkpoints that it saved."""

from pathlib import Path
from typing import Any

import pytest

from trainer.script.checkpoints import Checkpoints, RunState
from trainer.script.patience import Patience
from trainer.script.relay import Record, Relay

BEGAN = 1000.0
PLAN = {"global_batch": 64}


class Rank:
    """A relay, and what it wrote."""

    def __init__(
        self, checkpoints: Checkpoints | None = None, patience: Patience | None = None, *, knows_batch: bool = True
    ) -> None:
        self.written: list[Record] = []
        self.relay = Relay(
            self.written.append, lambda: self.written.append({"kind": "flush"}), plan=PLAN, started_at=BEGAN,
            checkpoints=checkpoints, patience=patience, knows_batch=knows_batch, now=lambda: BEGAN + 100,
        )  # fmt: skip

    def take(self, kind: str, at: float = 0.0, **fields: Any) -> list[Record]:
        """The records of one message, `at` seconds after the start."""
        before = len(self.written)
        self.relay.take({"kind": kind, "at": BEGAN + at, **fields})
        return self.written[before:]

    def report(self, at: float, **fields: Any) -> Record:
        return self.take("report", at, **{"metrics": {}, **fields})[-1]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, attempt=1, keep=2)


def test_the_first_report_ends_the_set_up(checkpoints: Checkpoints) -> None:
    rank = Rank(checkpoints)
    assert rank.take("phase", 1, name="load", duration_s=1.0) == []
    assert rank.take("phase", 3, name="load", duration_s=2.0) == []
    ended, planned, report = rank.take("report", 4, step=1, metrics={"loss": 2.0})
    at = BEGAN + 4
    assert ended == {"kind": "phase_ended", "at": at, "name": "load", "duration_s": 3.0}
    assert planned == {"kind": "planned", "at": at, "plan": PLAN, "start_step": 0, "start_epoch": 0}
    assert report == {"kind": "report", "at": at, "step": 1, "epoch": None, "metrics": {"loss": 2.0}}
    assert len(rank.take("report", 5, metrics={})) == 1
    assert rank.relay.summary(stopped_early=False)["summary"]["setup_s"] == 4


def test_times_of_steps_are_means_between_reports() -> None:
    astray = Rank()  # its clock is not believed
    assert [astray.report(at, step=1)["at"] for at in (-500, 1e9)] == [BEGAN, BEGAN + 101]
    rank = Rank()
    rank.report(1, step=10)
    rank.take("phase", 2, name="data", duration_s=2.0)
    timed = rank.report(9, step=14, phases={"data": 2.0, "allreduce": 99.0, "validate": 3.0})
    assert (timed["step_time_s"], timed["samples_per_s"]) == (2.0, 32.0)
    assert (timed["data_wait_s"], timed["allreduce_s"]) == (1.0, 2.0)  # never more than the step
    assert timed["metrics"] == {"validate_s": 3.0}
    assert "step_time_s" not in rank.report(10, step=14)
    assert "step_time_s" not in rank.report(11, step=3)
    assert rank.report(12, step=4)["step_time_s"] == 1.0
    assert "step_time_s" not in rank.report(12, step=5)  # no time passed
    summary = rank.relay.summary(stopped_early=True)["summary"]
    assert (summary["train_samples_per_s"], summary["stopped_early"]) == (64 * 5 / 9, True)


def test_an_epoch_has_its_time_and_own_numbers_stay() -> None:
    rank = Rank()
    rank.report(1, step=1, epoch=1)
    ended = rank.report(5, epoch=1, metrics={"validate_s": 7.0}, phases={"validate": 3.0})
    assert (ended["wall_s"], ended["metrics"]) == (4.0, {"validate_s": 7.0})
    assert "wall_s" not in rank.report(6, epoch=1)
    assert rank.report(8, epoch=2)["wall_s"] == 3.0
    assert rank.relay.summary(stopped_early=False)["summary"]["epochs_run"] == 2


@pytest.mark.parametrize(
    ("resumed", "first", "start"),
    [
        (None, {}, (0, 0)),
        (None, {"step": 5, "epoch": 2}, (4, 1)),
        (None, {"epoch": 3}, (2, 2)),
        (20, {"step": 21, "epoch": 3}, (20, 2)),
        (20, {"step": 30}, (20, 0)),
        (20, {}, (20, 0)),
        (2, {"step": 51, "epoch": 3}, (50, 2)),  # its checkpoints have the numbers of epochs
        (20, {"step": 1}, (0, 0)),  # it looked at the checkpoint, and began anew
    ],
)
def test_the_plan_says_after_which_step_the_run_continues(
    checkpoints: Checkpoints, resumed: int | None, first: dict[str, int], start: tuple[int, int]
) -> None:
    rank = Rank(checkpoints)
    if resumed is not None:
        rank.take("resumed", step=resumed)
    planned = rank.take("report", 1, metrics={}, **first)[0]
    assert (planned["start_step"], planned["start_epoch"]) == start


def test_a_checkpoint_keeps_the_state_from_which_a_run_continues(checkpoints: Checkpoints) -> None:
    def patience() -> Patience:
        return Patience("loss", patience=2, min_delta=0.0, is_lower_better=True)

    rank = Rank(checkpoints, patience())
    rank.report(1, step=1)
    rank.report(3, step=2)
    rank.report(4, epoch=1, metrics={"loss": 1.0})
    rank.report(5, epoch=2, metrics={"loss": 2.0})
    folder = checkpoints.own / "step-0000000002"
    folder.mkdir(parents=True)
    flush, saved = rank.take("checkpoint", 6, step=2, duration_s=0.5)
    assert flush == {"kind": "flush"}
    assert (saved["step"], saved["epoch"], saved["path"], saved["kept"]) == (2, 2, str(folder), 1)
    assert checkpoints.state_at(2) == RunState(epochs=2, steps=1, steps_s=2.0, wall_s=5.0, best=1.0, waited=1)

    later = Rank(checkpoints, patience())
    later.take("resumed", step=2)
    later.report(1, step=3)
    assert not later.relay.should_stop_early
    later.report(2, epoch=3, metrics={"loss": 1.5})
    assert later.relay.should_stop_early


def test_a_checkpoint_that_is_not_there_or_was_told_is_left_out(checkpoints: Checkpoints) -> None:
    rank = Rank(checkpoints)
    rank.report(1, step=5)
    assert rank.take("checkpoint", 2, step=5, duration_s=0.1) == []
    (checkpoints.own / "step-0000000005").mkdir(parents=True)
    assert rank.take("checkpoint", 3, step=5, duration_s=0.1)[-1]["kept"] == 1
    assert rank.take("checkpoint", 4, step=5, duration_s=0.1) == []


def test_samples_per_second_are_those_of_the_script_or_need_its_batch() -> None:
    rank = Rank()
    for at in (1, 2):
        rank.report(at, step=at, metrics={"samples_per_s": 100.0 * at})
    assert rank.relay.summary(stopped_early=False)["summary"]["train_samples_per_s"] == 150
    unknown = Rank(knows_batch=False)
    assert [unknown.report(at, step=at).get("samples_per_s") for at in (1, 2)] == [None, None]
    assert unknown.relay.summary(stopped_early=False)["summary"]["train_samples_per_s"] is None


def test_other_ranks_than_0_write_only_their_own_reports(checkpoints: Checkpoints) -> None:
    rank, first = Rank(), Rank(checkpoints)
    rank.take("phase", name="load", duration_s=1.0)
    assert rank.take("progress", 1, done=1.0) == []
    assert rank.take("checkpoint", 1, step=1, duration_s=1.0) == []
    assert [record["kind"] for record in rank.take("report", 2, step=1, metrics={})] == ["report"]
    progress = first.take("progress", 1, done=2.0, total=8.0)[-1]
    assert progress == {"kind": "progress", "at": BEGAN + 1, "done": 2.0, "total": 8.0}
    summary = Rank(checkpoints).relay.summary(stopped_early=False)["summary"]
    assert (summary["setup_s"], summary["wall_s"]) == (0, 100)  # of a script that told nothing


def test_alerts_of_any_rank_are_passed_on_at_once_but_not_too_many() -> None:
    rank = Rank()
    first = rank.take("alert", 1, level="error", title="a", text="b", wait_s=5.0)
    alert = {"kind": "alert", "at": BEGAN + 1, "level": "error", "title": "a", "text": "b", "wait_s": 5.0}
    assert first == [alert, {"kind": "flush"}]
    for number in range(100_000):
        rank.take("alert", number / 1000, level="info", title="a")
    of_minutes = [int(record["at"] // 60) for record in rank.written if record["kind"] == "alert"]
    assert {minute: of_minutes.count(minute) for minute in of_minutes} == {16: 11, 17: 11, 18: 11}
    for number in range(1000):
        rank.take("alert", (number % 2) * 60, level="info", title="a")
    assert sum(record["kind"] == "alert" for record in rank.written) == 101


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
