"""Which step and epoch a reported value belongs to, and which values are left out."""

from typing import Any

import pytest

from jobs.intake import script_reports
from jobs.intake.script_reports import MOST_METRICS, Place, ScriptReports
from jobs.model.records import ProgressMade, Reported
from jobs.telemetry.ingest import ALL_RANKS

Points = dict[str, tuple[int, int, int, float]]  # (rank, step, epoch, value) by name


def taken(reports: ScriptReports, *, rank: int = 0, sentences: list[str] | None = None, **fields: Any) -> Points:
    metrics = fields.pop("metrics", {"loss": 0.5})
    placed, said = reports.take(rank, Reported(at=1.0, metrics=metrics, **fields))
    if sentences is not None:
        sentences += said
    return {name: (placed.rank, *placed.places[name], value) for name, value in placed.values.items()}


def test_a_step_belongs_to_its_rank_with_the_times_that_were_measured() -> None:
    reports = ScriptReports()
    assert taken(reports, rank=1, step=3) == {"loss": (1, 3, 1, 0.5)}
    timed = taken(reports, rank=1, step=4, epoch=2, step_time_s=0.1, data_wait_s=0.0, samples_per_s=9.0)
    assert timed == {
        "loss": (1, 4, 2, 0.5), "step_time_s": (1, 4, 2, 0.1), "data_wait_s": (1, 4, 2, 0.0),
        "samples_per_s": (1, 4, 2, 9.0),
    }  # fmt: skip


def test_own_numbers_win_over_measured_ones() -> None:
    own = taken(ScriptReports(), step=1, step_time_s=0.1, metrics={"step_time_s": 7.0})
    assert own == {"step_time_s": (0, 1, 1, 7.0)}


def test_an_epoch_of_rank_zero_is_that_of_all_ranks_at_its_last_step() -> None:
    reports = ScriptReports()
    taken(reports, step=10)
    assert taken(reports, epoch=1, wall_s=2.0) == {"loss": (ALL_RANKS, 10, 1, 0.5), "epoch_s": (ALL_RANKS, 10, 1, 2.0)}
    assert taken(reports, epoch=1, metrics={"val_loss": 1.0}) == {"val_loss": (ALL_RANKS, 10, 1, 1.0)}
    assert taken(reports, epoch=2) == {"loss": (ALL_RANKS, 11, 2, 0.5)}, "an epoch without a step of its own"
    assert taken(reports, step=12) == {"loss": (0, 12, 3, 0.5)}
    assert taken(reports, rank=1, epoch=1, metrics={"seen": 1.0}) == {"seen": (1, 1, 1, 1.0)}


def test_epochs_without_steps_are_numbered_by_themselves_after_a_restart_too() -> None:
    reports = ScriptReports()
    assert [taken(reports, epoch=epoch)["loss"][1] for epoch in (1, 2, 4)] == [1, 2, 4]
    resumed = ScriptReports()
    resumed.resume(Place(4, 4))
    assert taken(resumed, epoch=5) == {"loss": (ALL_RANKS, 5, 5, 0.5)}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("step", [None, 10])
def test_another_reader_takes_the_epochs_that_follow(rank: int, step: int | None) -> None:
    reports = ScriptReports()
    if step is not None:
        taken(reports, rank=rank, step=step)
    at = [taken(reports, rank=rank, epoch=epoch, metrics={"mae": 1.0})["mae"][1] for epoch in (1, 2)]
    reader = ScriptReports.after(reports.last_steps)
    at += [taken(reader, rank=rank, epoch=epoch, metrics={"mae": 1.0})["mae"][1] for epoch in (3, 4)]
    assert at == [at[0], at[0] + 1, at[0] + 2, at[0] + 3]


def test_a_value_of_the_run_goes_to_the_present_step_and_each_further_one_a_step_on() -> None:
    reports = ScriptReports()
    taken(reports, step=10)
    assert taken(reports, metrics={"wer": 0.3}) == {"wer": (ALL_RANKS, 10, 0, 0.3)}
    assert taken(reports, metrics={"wer": 0.2}) == {"wer": (ALL_RANKS, 11, 0, 0.2)}
    assert taken(reports, rank=1, metrics={"wer": 0.2}) == {"wer": (1, 0, 0, 0.2)}
    without_steps = ScriptReports()
    assert [taken(without_steps)["loss"][1] for _ in range(3)] == [0, 1, 2]


def test_repeated_and_earlier_steps_are_left_out_and_said_once() -> None:
    reports, sentences = ScriptReports(), []  # type: ScriptReports, list[str]
    taken(reports, step=5, sentences=sentences)
    assert taken(reports, step=5, metrics={"accuracy": 1.0}, sentences=sentences)
    assert not sentences
    assert taken(reports, step=5, sentences=sentences) == {}
    assert taken(reports, step=4, sentences=sentences) == {}
    assert sentences == ["hora: the steps of a metric must ascend: values of repeated and earlier steps are not stored"]


def test_further_names_are_left_out_and_known_ones_go_on() -> None:
    reports, sentences = ScriptReports(), []  # type: ScriptReports, list[str]
    for number in range(MOST_METRICS + 5):
        taken(reports, step=1, metrics={f"m{number}": 1.0}, step_time_s=0.5, sentences=sentences)
    assert len(reports.names) == MOST_METRICS
    assert len([one for one in sentences if "1000 metrics" in one]) == 1
    assert taken(reports, step=2, metrics={"m0": 1.0, "new": 2.0}) == {"m0": (0, 2, 1, 1.0)}


def test_values_without_a_step_are_limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(script_reports, "MOST_WITHOUT_STEP", 3)
    reports, sentences = ScriptReports(), []  # type: ScriptReports, list[str]
    stored = [taken(reports, epoch=epoch, sentences=sentences) for epoch in range(1, 9)]
    assert [bool(points) for points in stored] == [True] * 3 + [False] * 5
    assert len(sentences) == 1
    assert taken(reports, step=100)


def test_a_batch_that_is_built_again_from_a_copy_gives_the_same_points() -> None:
    reports = ScriptReports()
    taken(reports, step=1)
    first, second = reports.copy(), reports.copy()
    assert taken(first, step=2) == taken(second, step=2) != {}


def test_the_rest_takes_as_long_as_the_speed_so_far_says() -> None:
    reports = ScriptReports()
    assert reports.eta_s(ProgressMade(at=10.0, done=5.0, total=25.0)) is None
    assert reports.eta_s(ProgressMade(at=20.0, done=10.0, total=25.0)) == 30.0
    assert reports.eta_s(ProgressMade(at=30.0, done=30.0, total=25.0)) == 0.0
    assert reports.eta_s(ProgressMade(at=30.0, done=12.0)) is None
