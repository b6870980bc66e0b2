"""The figures of a cell from those of its jobs, with intervals and without outliers, and how cells are compared."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.insight.studies.cpu_speedups import with_cpu_speedups
from jobs.insight.studies.figures import baseline_of, best_of, cell_report, compared_with
from jobs.insight.studies.goals import goal_of, impossible, target_from
from jobs.insight.studies.outliers import outliers_of
from jobs.insight.studies.plots import plot_of
from jobs.insight.studies.statistics import difference, interval, student_t
from jobs.model.states import Status
from jobs.views.studies import Baseline, CellReport, Goal, StudyReport, Target
from tests.unit.jobs.insight.study_runs import ACCURACY, cell, run

MAE = Goal(metric="val_mae", mode="min")


def mean(cell: CellReport, name: str) -> float | None:
    figure = getattr(cell, name)
    return None if figure is None else figure.mean


def test_cell_has_the_means_of_its_successful_repeats() -> None:
    report = cell([run(10), run(14), run(99, status=Status.FAILED), run(99, status=Status.RUNNING, hosts=2)])

    assert (report.repeats, report.failed, report.unfinished, report.hosts) == (2, 1, 1, 2)
    assert report.jobs == ["1x10", "1x14", "1x99", "1x99"]
    assert report.wall_s is not None
    assert (report.wall_s.mean, report.wall_s.values) == (12.0, [10.0, 14.0])
    assert mean(report, "setup_s") == 2.0
    assert mean(report, "samples_per_s") == pytest.approx((100 + 1000 / 14) / 2)
    assert mean(report, "gpu_hours") == pytest.approx(14 / 3600)
    assert mean(report, "epochs_run") == 2

    nothing = cell([run(status=Status.QUEUED, hosts=None), run(status=Status.CANCELLED)], target=0.5)
    assert (nothing.repeats, nothing.failed, nothing.unfinished, nothing.reached_target) == (0, 1, 1, 0)
    assert nothing.wall_s is nothing.time_to_target_s is nothing.gpu_hours is None

    many = {f"m{number:03}": 1.0 for number in range(200)} | {"val_mae": 1.0}
    metrics = cell([run(metrics=many)], goal=MAE).metrics  # type: ignore[arg-type]
    assert (len(metrics), next(iter(metrics))) == (100, "val_mae"), "a limited number, the goal first"


def test_time_to_target_is_the_sum_of_epochs_up_to_the_first_that_reaches_it() -> None:
    found = cell([run(gpus=2, accuracies=(None, 0.7, 0.8, 0.6, 0.9)), run(gpus=2, accuracies=(0.8,))], target=0.8)

    assert found.time_to_target_s is not None
    assert (found.time_to_target_s.values, found.reached_target) == ([3.0, 1.0], 2)
    assert mean(found, "gpu_hours_to_target") == pytest.approx(2 * 2 / 3600)
    missed = cell([run(accuracies=(0.9,)), run(accuracies=(0.7,))], target=0.8)
    assert (missed.time_to_target_s, missed.gpu_hours_to_target, missed.reached_target) == (None, None, 1)


def test_target_from_results_is_reached_by_every_repeat_of_three_cells_in_four() -> None:
    levels = [(0.999, 0.981), (0.97, 0.955), (0.93, 0.94), (0.2, 0.99)]
    cells = [[run(accuracies=(0.1, level)) for level in pair] for pair in levels]
    nothing = [run(status=Status.FAILED, accuracies=(1.0,))]

    assert target_from([*cells, nothing], ACCURACY) == Target(value=0.93, chosen_by="results")
    assert target_from(cells[:2], ACCURACY) == Target(value=0.95, chosen_by="results")
    assert target_from([[run(accuracies=(0.58,))]], ACCURACY) == Target(value=0.58, chosen_by="results")
    assert target_from([nothing, [run(accuracies=())]], ACCURACY) is None
    assert target_from([[run(accuracies=(0.001,))]], ACCURACY) is None


def test_speedups_are_against_the_same_cell_with_the_fewest_gpus() -> None:
    cells = [
        cell([run(12), run(12)], batch_size=8), cell([run(30)], batch_size=16),
        cell([run(4, gpus=4), run(8, gpus=4)], batch_size=8), cell([run(30, gpus=4)], batch_size=16),
    ]  # fmt: skip
    baseline = baseline_of(cells, ["gpus", "batch_size"])
    compared = compared_with(cells, baseline, ACCURACY)

    assert baseline == Baseline(gpus=1)
    assert [cell_report.speedup for cell_report in compared] == pytest.approx([1.0, 1.0, 2.0, 1.0])
    assert [cell_report.efficiency for cell_report in compared] == pytest.approx([1.0, 1.0, 0.5, 0.25])
    assert compared[2].throughput_speedup == pytest.approx((250 + 125) / 2 / (1000 / 12))
    assert [cell_report.accuracy_agreement is None for cell_report in compared] == [True, True, False, False]

    cells[1] = cell([run(status=Status.FAILED)], batch_size=16)
    compared = compared_with(cells, Baseline(gpus=1), ACCURACY)
    assert [one.speedup for one in compared] == [1.0, None, 2.0, None], "its baseline is missing"
    cells = [cell([run(12, gpus=2)]), cell([run(4, gpus=8)])]
    compared = compared_with(cells, baseline_of(cells, ["gpus"]), ACCURACY)
    assert [(one.speedup, one.efficiency) for one in compared] == [(1.0, 1.0), (3.0, 0.75)]


def test_gpu_count_whose_jobs_failed_is_not_the_baseline() -> None:
    lost = cell([run(status=Status.FAILED)])
    there = [cell([run(8, gpus=2)]), cell([run(4, gpus=4)])]

    assert baseline_of([lost, *there], ["gpus"]) == Baseline(gpus=2)
    assert baseline_of([cell([run(status=Status.RUNNING)]), *there], ["gpus"]) == Baseline(gpus=1)
    assert baseline_of([lost], ["gpus"]) is None
    assert baseline_of(there, ["batch_size"]) is None
    assert [one.speedup for one in compared_with(there, None, ACCURACY)] == [None, None]


@pytest.mark.parametrize(
    ("goal", "there", "here", "agrees", "needed"),
    [
        (ACCURACY, [0.90, 0.91], [0.90, 0.92], None, 6),  # less than two points, but two repeats do not show it
        (ACCURACY, [0.19, 0.30], [0.14, 0.2267], None, 12),
        (ACCURACY, [0.5, 0.9], [0.52, 0.9], None, None),  # not even a hundred repeats would show it
        (ACCURACY, [0.900, 0.905, 0.910], [0.902, 0.906, 0.910], True, None),
        (ACCURACY, [0.900, 0.9001], [0.905, 0.9051], True, None),  # beyond chance, but less than a point
        (ACCURACY, [0.90, 0.9001], [0.95, 0.9501], False, None),
        (ACCURACY, [0.90], [0.95, 0.9501], None, None),
        (MAE, [4.0, 4.0001], [4.03, 4.0301], True, None),  # less than a percent
        (MAE, [4.0, 4.0001], [4.05, 4.0501], False, None),
    ],
)
def test_agreement_is_shown_within_two_points_or_five_percent_or_is_open(
    goal: Goal, there: list[float], here: list[float], agrees: bool | None, needed: int | None
) -> None:
    cells = [
        cell([run(gpus=gpus, val_accuracy=value, metrics={"val_mae": value}) for value in values], goal=goal)
        for gpus, values in ((1, there), (2, here))
    ]
    agreement = compared_with(cells, Baseline(gpus=1), goal)[1].accuracy_agreement
    assert agreement is not None
    assert (agreement.agrees, agreement.repeats_needed) == (agrees, needed)
    assert agreement.difference == pytest.approx(sum(here) / len(here) - sum(there) / len(there))
    assert (agreement.low is None) == (len(there) == 1)


def test_best_cell_is_found_for_each_figure() -> None:
    cells = [
        cell([run(10)], target=0.9),
        cell([run(5, gpus=2, val_accuracy=0.8, accuracies=(0.95,))], target=0.9),
        cell([run(status=Status.FAILED)]),
    ]
    assert best_of(cells, ACCURACY) == {
        "wall_s": 1, "time_to_target_s": 1, "gpu_hours": 0, "gpu_hours_to_target": 0, "samples_per_s": 1,
        "val_accuracy": 0, "goal": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base", "names", "goal"),
    [
        ({"dataset": "digits"}, [], ACCURACY),
        ({"dataset": "digits", "goal": {"metric": "val_loss"}}, ["val_accuracy"], Goal(metric="val_loss", mode="min")),
        ({"code": "c", "goal": {"metric": "val_mae", "mode": "max"}}, [], Goal(metric="val_mae", mode="max")),
        ({"code": "c"}, ["loss", "val_mae", "epoch_s"], MAE),
        ({"code": "c"}, [], None),
    ],
)
def test_the_goal_is_that_of_the_base_or_what_the_jobs_report(
    base: dict[str, Any], names: list[str], goal: Goal | None
) -> None:
    assert goal_of(base, names) == goal


def test_a_target_that_an_accuracy_cannot_reach_is_impossible() -> None:
    assert "did you mean 0.9?" in (impossible(90, ACCURACY, {"dataset": "digits"}) or "")
    assert impossible(0, ACCURACY, {"dataset": "digits"}) is not None
    assert impossible(0.9, ACCURACY, {"dataset": "digits"}) is None
    assert impossible(90, ACCURACY, {"code": "c"}) is impossible(-3.5, MAE, {"code": "c"}) is None


def test_a_goal_that_is_better_when_lower_has_a_target_a_time_and_a_best_cell() -> None:
    good = [run(accuracies=(3.0, None, 0.123, 0.2), metrics={"val_mae": 0.123, "wer": 7.0, "nan": None})]
    poor = [run(gpus=2, accuracies=(3.0, 0.5), metrics={"val_mae": 0.5})]
    target = target_from([good] * 3 + [poor], MAE)
    assert target == Target(metric="val_mae", value=0.13, chosen_by="results")

    cells = [cell_report({"gpus": runs[0].gpus}, runs, MAE, target) for runs in (good, poor)]
    assert [mean(one, "time_to_target_s") for one in cells] == [3.0, None]
    assert {name: interval.mean for name, interval in cells[0].metrics.items()} == {
        "val_mae": 0.123, "val_accuracy": 0.9, "wer": 7.0,
    }  # fmt: skip
    assert list(cells[0].metrics) == ["val_mae", "val_accuracy", "wer"], "the goal comes first"
    assert best_of(cells, MAE)["goal"] == 0
    assert best_of(cells, MAE.model_copy(update={"mode": "max"}))["goal"] == 1


@pytest.mark.parametrize(
    ("value", "mode", "target"),
    [(0.0123, "min", 0.013), (1234.0, "min", 1300.0), (1234.0, "max", 1200.0), (-0.57, "max", -0.57),
     (-4.56, "max", -4.6), (0.0, "min", None)],
)  # fmt: skip
def test_a_target_from_results_is_a_round_value_that_was_reached(value: float, mode: Any, target: float | None) -> None:
    found = target_from([[run(accuracies=(value,))]], Goal(metric="x", mode=mode))
    assert (found and found.value) == target


def test_cells_are_compared_with_the_same_cell_on_the_fewest_cpu_slots() -> None:
    cells = [
        cell([run(300, gpus=2)], device="cpu", batch_size=8), cell([run(600)], device="cpu", batch_size=8),
        cell([run(8)], device="gpu", batch_size=8), cell([run(4, gpus=2)], device="gpu", batch_size=8),
        cell([run(4)], device="gpu", batch_size=16), cell([run(6, gpus=2)], device="auto", batch_size=8),
    ]  # fmt: skip
    assert [each.speedup_vs_cpu for each in with_cpu_speedups(cells)] == [2, 1, 75, 150, None, 100]
    assert with_cpu_speedups(cells)[3].throughput_vs_cpu == 150


def test_cpu_slots_without_a_result_are_no_base() -> None:
    failed = cell([run(status=Status.FAILED)], device="cpu")
    gpu = cell([run(8)], device="gpu")
    assert [each.speedup_vs_cpu for each in with_cpu_speedups([failed, gpu])] == [None, None]
    two = cell([run(80, gpus=2)], device="cpu")
    assert [each.speedup_vs_cpu for each in with_cpu_speedups([failed, two, gpu])] == [None, 1, 10]

    no_throughput = cell([run(8, train_samples_per_s=None)], device="gpu")
    [_, found] = with_cpu_speedups([two, no_throughput])
    assert (found.speedup_vs_cpu, found.throughput_vs_cpu) == (10, None)


def test_the_picture_shows_speedups_against_the_cpu_over_the_device_or_the_gpus() -> None:
    cells = with_cpu_speedups([cell([run(40)], device="cpu"), cell([run(2)], device="gpu")])
    values = {
        "study_id": "s", "name": "s", "repeats": 1, "complete": True, "scaling": None, "target": None, "cells": cells,
        "best": {}, "findings": [], "notes": [],
    }  # fmt: skip
    for varied, baseline, shown in (
        (["device"], None, ("device", [1, 20])), (["device", "gpus"], {"gpus": 1}, ("GPUs", [1])),
    ):  # fmt: skip
        plot = plot_of(StudyReport.model_validate(values | {"varied": varied, "baseline": baseline}))
        panels = {panel.title: (panel.x_label, panel.lines[0].y) for panel in plot.panels}
        assert panels["Speed-up against the CPU"] == shown


def stalled(*wall_s: float, **summary: Any) -> list[str]:
    """The jobs of one cell that stalled, by their training times."""
    return [outlier.job_id for outlier in outliers_of([[run(each, **summary) for each in wall_s]])]


def test_a_repeat_far_slower_than_the_others_is_an_outlier() -> None:
    [outlier] = outliers_of([[run(9)], [run(10), run(11), run(100)]])

    assert (outlier.job_id, outlier.cell, outlier.figure) == ("1x100", 1, "epoch_s")
    assert (outlier.value, outlier.median) == (50, 5.5)
    assert outlier.rule == "more than 1.5 x the median time, and a modified z-score above 3.5"
    [by_speed] = outliers_of([[run(each, epochs_run=None) for each in (20, 25, 100)]])
    assert (by_speed.figure, by_speed.value, by_speed.median) == ("samples_per_s", 10, 40)


def test_two_repeats_have_no_outlier_and_neither_has_chance() -> None:
    assert stalled(10, 100) == []
    assert stalled(10, 10, 14.9) == [], "the deviation of the others is 0, but it is not much slower"
    assert stalled(10, 14, 17) == [], "much slower, but the others differ as well"
    assert stalled(10, 10, 16) == ["1x16"]
    assert stalled(1, 10, 10) == [], "one that is faster did not stall"
    assert stalled(20, 20, 90, train_samples_per_s=None, epochs_run=None) == [], "nothing is known"
    more_epochs = run(90, epochs_run=9, train_samples_per_s=1)
    running, failed = (replace(run(99), status=status) for status in (Status.RUNNING, Status.FAILED))
    for odd in (more_epochs, running, failed):
        assert outliers_of([[run(20), run(20), odd]]) == []


numbers = st.one_of(st.none(), st.floats(), st.floats(0.1, 100))


@given(st.lists(st.tuples(numbers, numbers, st.sampled_from([None, 0, 1, 7])), max_size=9))
def test_most_repeats_are_never_outliers_whatever_was_reported(summaries: list[tuple[Any, Any, Any]]) -> None:
    runs = [
        replace(run(), summary={"wall_s": wall_s, "train_samples_per_s": speed, "epochs_run": epochs})
        for wall_s, speed, epochs in summaries
    ]
    for outlier in (found := outliers_of([runs])):
        assert outlier.value > outlier.median if outlier.figure == "epoch_s" else outlier.value < outlier.median
    assert 2 * len(found) < max(1, len(runs))


def test_a_cell_has_its_figures_of_speed_with_outliers_and_without() -> None:
    jobs = {"a": (10, 0.9), "b": (12, 0.9), "c": (110, 0.6)}
    runs = [replace(run(wall_s, val_accuracy=value), job_id=job) for job, (wall_s, value) in jobs.items()]
    target = Target(value=0.5, chosen_by="request")
    without = cell_report({"gpus": 1}, runs, ACCURACY, target, outliers=["c"])
    kept = cell_report({"gpus": 1}, runs, ACCURACY, target, outliers=["c"], keep_outliers=True)

    assert (without.repeats, without.reached_target) == (3, 3)
    assert [each.wall_s and each.wall_s.values for each in (without, kept)] == [[10, 12], [10, 12, 110]]
    for each in (without, kept):
        assert each.val_accuracy is not None
        assert each.val_accuracy.values == [0.9, 0.9, 0.6], "accuracies are those of all repeats"
        assert each.with_outliers is not None
        assert each.without_outliers is not None
        assert each.with_outliers.wall_s == kept.wall_s
        assert each.without_outliers.wall_s == without.wall_s
        assert each.without_outliers.gpu_hours == without.gpu_hours
    assert without.time_to_target_s is not None
    assert len(without.time_to_target_s.values) == 2

    calm = cell_report({"gpus": 1}, runs[:2], ACCURACY, target, outliers=["c"])
    assert (calm.with_outliers, calm.without_outliers) == (None, None)


def test_interval_matches_a_hand_calculation() -> None:
    found = interval([10.0, 12.0, 14.0])  # s = 2, s / sqrt(3) = 1.1547, t(2) = 4.3027

    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((12.0, 7.0317, 16.9683), abs=1e-4)
    assert found.values == [10.0, 12.0, 14.0]
    for values, bounds in (([3.0], (3.0, None, None)), ([5.0, 5.0], (5.0, 5.0, 5.0))):
        found = interval(values)
        assert found is not None
        assert (found.mean, found.low, found.high) == bounds
    assert interval([]) is None


def test_welch_interval_matches_a_hand_calculation() -> None:
    # s^2 / n are 0.5 and 2, the error sqrt(2.5) = 1.5811; 2.5^2 / (0.5^2 / 4 + 2^2 / 4) = 5.88 degrees: t(5) = 2.5706
    found = difference([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    assert found == pytest.approx((-3 - 4.0645, -3 + 4.0645), abs=1e-3)
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, 1.0), "without spread it is a point"
    assert difference([2.0], [1.0, 1.5]) is None
    low, high = difference([1.0, 1.0 + 1e-160], [1.0, 3.0]) or (0.0, 0.0)
    assert low < -1 < high
    low, high = difference([2.6, 5.2, 7.8], [3.3, 5.9, 8.5]) or (0.0, 0.0)  # equal variances: all degrees of freedom
    assert high - low == pytest.approx(2 * student_t(4) * math.sqrt(2 * 6.76 / 3))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -1e200])
def test_values_that_cannot_be_averaged_are_left_out(odd: float) -> None:
    found = interval([odd, 1.0, odd, 3.0])
    assert found is not None
    assert (found.mean, found.values) == (2.0, [1.0, 3.0])
    assert interval([odd, odd]) is None
