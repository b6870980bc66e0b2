"""The rules of goals on cases that also test those of the dashboard, in `dashboard/src/metrics.test.ts`."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.intake.metric_book import TIMES
from jobs.model.goals import goal_metric, is_better_lower
from jobs.model.spec_parts import GoalSpec
from jobs.telemetry.sampled_metrics import METRIC_NAMES

CASES: dict[str, Any] = json.loads((Path(__file__).parents[4] / "dashboard" / "src" / "metrics.cases.json").read_text())


def goal_of(case: dict[str, Any]) -> GoalSpec | None:
    return None if case["goal"] is None else GoalSpec(**case["goal"])


@pytest.mark.parametrize("case", CASES["goals"], ids=str)
def test_the_goal_counts_or_else_the_first_usual_name(case: dict[str, Any]) -> None:
    assert goal_metric(goal_of(case), case["names"]) == case["chosen"]


@pytest.mark.parametrize("case", CASES["modes"], ids=str)
def test_the_mode_of_a_goal_says_which_values_are_better_and_else_its_name(case: dict[str, Any]) -> None:
    assert GoalSpec(**case["goal"]).is_lower_better == case["is_better_lower"]


def test_losses_errors_and_times_are_better_when_lower() -> None:
    assert [name for name in CASES["better_lower"] if not is_better_lower(name)] == []
    assert [name for name in CASES["better_higher"] if is_better_lower(name)] == []


def test_the_dashboard_knows_what_hora_measures() -> None:
    assert set(CASES["measured"]) == TIMES
    assert set(CASES["sampled"]) == set(METRIC_NAMES)
