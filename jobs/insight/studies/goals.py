"""The goal of a study, by which its report compares cells, and the target, to which it measures time. Pure.

Called by `report`, and by `grid` for the target of a new study.
"""

from collections.abc import Collection, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from jobs.insight.studies.figures import Run
from jobs.model.goals import goal_metric
from jobs.model.spec import GoalSpec
from jobs.model.tasks import epoch_metrics
from jobs.views.studies import Goal, Target

_MOST_CELLS = 0.75  # the share of cells with results that reach a target chosen from them
_LEAST = 1e-150  # of a target: digits of less cannot be counted


def goal_of(base: Mapping[str, Any], names: Collection[str]) -> Goal | None:
    """The goal of a study: that of its base, else chosen from the `names` of the metrics of its jobs.

    `base` was checked with the study. None for scripts that have not reported any metric. Jobs of Hora's own loop
    report those of their task, sooner or later.
    """
    document = base.get("goal")
    spec = None if document is None else GoalSpec.model_validate(document)
    is_known = base.get("code") is not None or any(name.startswith("val_") for name in names)
    metric = goal_metric(spec, names if is_known else epoch_metrics(base.get("task", "auto")))
    if metric is None:
        return None
    is_lower_better = (spec or GoalSpec(metric=metric)).is_lower_better
    return Goal(metric=metric, mode="min" if is_lower_better else "max")


def impossible(target: float, goal: Goal, base: Mapping[str, Any]) -> str | None:
    """Why a target can never be reached, as a sentence; None if it can. A script may report an accuracy in percent."""
    if base.get("code") is not None or not goal.is_accuracy or 0 < target <= 1:
        return None
    meant = f"; did you mean {target / 100:g}?" if 1 < target <= 100 else ""
    return f"the goal is {goal.metric}, which is above 0 and at most 1, so {target:g} cannot be reached{meant}"


def target_from(cells: Sequence[Sequence[Run]], goal: Goal) -> Target | None:
    """The default target: the best round value that every repeat reached in three of four cells.

    Cells without a repeat that succeeded do not count. None if there are only such cells, or if the value is 0.
    """
    reached = []
    for runs in cells:
        levels = [run.best(goal) for run in runs if run.is_good]
        measured = [level for level in levels if level is not None]
        if measured:
            reached.append(max(measured) if goal.is_lower_better else min(measured))
    if not reached:
        return None
    reached.sort(reverse=not goal.is_lower_better)
    value = _rounded(reached[ceil(_MOST_CELLS * len(reached)) - 1], goal)
    return Target(metric=goal.metric, value=value, chosen_by="results") if value else None


def _rounded(value: float, goal: Goal) -> float:
    """The value with two digits, or an accuracy in whole percent, rounded to the side that is easier to reach."""
    if abs(value) < _LEAST:
        return 0.0
    places = 2 if goal.is_accuracy else 1 - floor(log10(abs(value)))
    scale = 10.0**places
    steps = ceil(value * scale - 1e-9) if goal.is_lower_better else floor(value * scale + 1e-9)
    return round(steps / scale, places)
