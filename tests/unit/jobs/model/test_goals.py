"""Which metric counts, and which values of a metric are better."""

import pytest

from jobs.model.goals import SAMPLED, TIMES, best_by, goal_metric, is_better_lower
from jobs.model.spec_parts import GoalSpec
from jobs.telemetry.ingest import RANK_EPOCH_METRICS
from jobs.telemetry.sampled_metrics import METRIC_NAMES


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["loss", "val_loss", "val_accuracy"], "val_accuracy"),
        (["loss", "val_mae", "val_loss"], "val_loss"),
        (["loss", "val_mae", "val_iou"], "val_iou"),
        (["loss", "accuracy"], "accuracy"),
        (["wer", "loss"], "loss"),
        (["wer", "bleu"], "bleu"),
        (["epoch_s", "gpu_percent", "samples_per_s", "wer"], "wer"),
        (["epoch_s", "learning_rate", "memory_bytes"], None),
        ([], None),
    ],
)
def test_without_a_goal_the_usual_names_count_first(names: list[str], expected: str | None) -> None:
    assert goal_metric(None, names) == expected


def test_what_hora_samples_is_no_goal_by_itself() -> None:
    assert set(METRIC_NAMES) == SAMPLED
    assert set(RANK_EPOCH_METRICS) <= TIMES


def test_a_goal_counts_even_if_it_is_not_reported() -> None:
    assert goal_metric(GoalSpec(metric="val_iou"), ["val_accuracy"]) == "val_iou"


def test_early_stopping_decides_which_epoch_is_best_then_the_goal_then_the_names() -> None:
    goal = GoalSpec(metric="val_iou")
    assert best_by(goal, "val_mae", ["val_loss"]) == "val_mae"
    assert best_by(goal, None, ["val_loss"]) == "val_iou"
    assert best_by(None, None, ["val_loss"]) == "val_loss"
    assert best_by(None, None, []) is None


def test_the_mode_of_a_goal_counts_for_its_metric_alone() -> None:
    goal = GoalSpec(metric="val_loss", mode="max")
    assert not is_better_lower("val_loss", goal)
    assert is_better_lower("loss", goal)
    assert is_better_lower("val_loss", GoalSpec(metric="val_loss"))
