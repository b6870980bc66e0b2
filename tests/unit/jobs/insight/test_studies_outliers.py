"""Which repeats count as stalled, and what a cell's figures are with them and without."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobs.insight.studies.figures import cell_report
from jobs.insight.studies.outliers import outliers_of
from jobs.model.states import Status
from jobs.views.studies import Target
from tests.unit.jobs.insight.study_runs import ACCURACY, run


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
    for cell in (without, kept):
        assert cell.val_accuracy is not None
        assert cell.val_accuracy.values == [0.9, 0.9, 0.6], "accuracies are those of all repeats"
        assert cell.with_outliers is not None
        assert cell.with_outliers.wall_s == kept.wall_s
        assert cell.without_outliers is not None
        assert cell.without_outliers.wall_s == without.wall_s
        assert cell.without_outliers.gpu_hours == without.gpu_hours
    assert without.time_to_target_s is not None
    assert len(without.time_to_target_s.values) == 2

    calm = cell_report({"gpus": 1}, runs[:2], ACCURACY, target, outliers=["c"])
    assert (calm.with_outliers, calm.without_outliers) == (None, None)
