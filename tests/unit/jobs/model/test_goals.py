"""Which metric counts, and which values of a metric are better.

The cases also test the rules of the dashboard, in `dashboard/src/metrics.test.ts`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.model.goals import SAMPLED, TIMES, best_by, goal_metric, is_better_lower
from jobs.model.spec_parts import GoalSpec
from jobs.telemetry.ingest import RANK_EPOCH_METRICS
from jobs.telemetry.sampled_metrics import METRIC_NAMES

CASES: dict[str, Any] = json.loads((Path(__file__).parents[4] / "dashboard" / "src" / "metrics.cases.json").read_text())


@pytest.mark.parametrize("case", CASES["goals"], ids=str)
def test_the_goal_counts_or_else_the_first_usual_name(case: dict[str, Any]) -> None:
    goal = None if case["goal"] is None else GoalSpec(**case["goal"])
    assert goal_metric(goal, case["names"]) == case["chosen"]


def test_what_hora_measures_is_no_goal_by_itself_and_the_dashboard_knows_it() -> None:
    assert goal_metric(None, ["epoch_s", "gpu_percent", "samples_per_s", "wer"]) == "wer"
    assert goal_metric(None, ["epoch_s", "learning_rate", "memory_bytes"]) is None
    assert goal_metric(None, ["wer", "bleu"]) == "bleu", "the first by the alphabet"
    assert set(METRIC_NAMES) == SAMPLED == set(CASES["sampled"])
    assert set(RANK_EPOCH_METRICS) <= TIMES
    assert set(CASES["measured"]) == TIMES


def test_early_stopping_decides_which_epoch_is_best_then_the_goal_then_the_names() -> None:
    goal = GoalSpec(metric="val_iou")
    assert best_by(goal, "val_mae", ["val_loss"]) == "val_mae"
    assert best_by(goal, None, ["val_loss"]) == "val_iou"
    assert best_by(None, None, ["val_loss"]) == "val_loss"
    assert best_by(None, None, []) is None


@pytest.mark.parametrize("case", CASES["modes"], ids=str)
def test_the_mode_of_a_goal_says_which_values_are_better_and_else_its_name(case: dict[str, Any]) -> None:
    assert GoalSpec(**case["goal"]).is_lower_better == case["is_better_lower"]


def test_losses_errors_and_times_are_better_when_lower_unless_the_goal_says_otherwise() -> None:
    assert [name for name in CASES["better_lower"] if not is_better_lower(name)] == []
    assert [name for name in CASES["better_higher"] if is_better_lower(name)] == []
    goal = GoalSpec(metric="val_loss", mode="max")
    assert not is_better_lower("val_loss", goal)
    assert is_better_lower("loss", goal)
    assert is_better_lower("val_loss", GoalSpec(metric="val_loss"))
