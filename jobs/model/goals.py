"""Which metrics are better when lower. Pure; used by specs, reports, advice, lists and charts.

A spec's `goal` says it for one metric. All others are judged by their name.
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.model.spec_parts import GoalSpec

METRIC_NAME = r"^[A-Za-z_][A-Za-z0-9_.:/@-]*$"
# The last word of the name, or all of it: val_loss, MAE, test_rmse, wer.
_LOWER = re.compile(
    r"(^|[_./:@-])(loss|cost|nll|bce|kl|crossentropy|cross_entropy|mae|mse|rmse|mape|msle|rmsle|error|err|errors|perplexity|ppl|wer|cer|fid|bpc"
    r"|bpd|eer|regret|latency|damaged)$",
    re.IGNORECASE,
)
_SECONDS = re.compile(r"_(s|ms|us|seconds)$")
_PER_SECOND = re.compile(r"_per_(s|ms|us|second|seconds)$")


def is_better_lower(metric: str) -> bool:
    """Whether a lower value of this metric is better: of losses, errors and times, but not of rates (`_per_s`)."""
    is_time = _SECONDS.search(metric) is not None and _PER_SECOND.search(metric) is None
    return is_time or _LOWER.search(metric) is not None


_FIRST_CHOICES = ("val_accuracy", "val_loss")
_LAST_CHOICES = ("accuracy", "loss")


def goal_metric(spec_goal: "GoalSpec | None", names: Collection[str]) -> str | None:
    """The metric that says how good a job is: its goal, else the first of the reported `names` that is a usual one.

    The names are tried in this sequence: `val_accuracy`, `val_loss`, any `val_*`, `accuracy`, `loss`, any other. None
    without a goal and without names.
    """
    if spec_goal is not None:
        return spec_goal.metric
    validation = sorted(name for name in names if name.startswith("val_"))
    choices = (*_FIRST_CHOICES, *validation, *_LAST_CHOICES, *names)
    return next((name for name in choices if name in names), None)
