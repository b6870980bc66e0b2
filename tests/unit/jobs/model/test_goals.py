"""Which metric counts, and which values of a metric are better."""

import pytest

from jobs.model.goals import goal_metric
from jobs.model.spec_parts import GoalSpec


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["loss", "val_loss", "val_accuracy"], "val_accuracy"),
        (["loss", "val_mae", "val_loss"], "val_loss"),
        (["loss", "val_mae", "val_iou"], "val_iou"),
        (["loss", "accuracy"], "accuracy"),
        (["wer", "loss"], "loss"),
        (["wer", "bleu"], "wer"),
        ([], None),
    ],
)
def test_without_a_goal_the_usual_names_count_first(names: list[str], expected: str | None) -> None:
    assert goal_metric(None, names) == expected


def test_a_goal_counts_even_if_it_is_not_reported() -> None:
    assert goal_metric(GoalSpec(metric="val_iou"), ["val_accuracy"]) == "val_iou"
