"""Which metrics are better when lower, and which one counts. Pure; used by specs, reports, advice, lists and charts.

A spec's `goal` says it for one metric. All others are judged by their name.
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from jobs.model.tasks import CLASSIFICATION, DEFAULT_METRICS

if TYPE_CHECKING:
    from jobs.model.spec_parts import GoalSpec

METRIC_NAME = r"^[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}$"
# The last word of the name, or all of it: val_loss, MAE, test_rmse, wer.
_LOWER = re.compile(
    r"(^|[_./:@-])(loss|cost|nll|bce|kl|div|divergence|crossentropy|cross_entropy|mae|mse|rmse|mape|msle|rmsle|error|err|errors"
    r"|error_rate|err_rate|perplexity|ppl|wer|cer|fid|bpc|bpd|eer|regret|latency|damaged)$",
    re.IGNORECASE,
)
_SECONDS = re.compile(r"_(s|ms|us|seconds)$")
_PER_SECOND = re.compile(r"_per_(s|ms|us|second|seconds)$")


def is_better_lower(metric: str, spec_goal: "GoalSpec | None" = None) -> bool:
    """Whether a lower value of this metric is better: as the goal says if it is of this metric, else by the name.

    By their names that is so of losses, errors and times, but not of rates (`_per_s`).
    """
    if spec_goal is not None and spec_goal.metric == metric and spec_goal.mode is not None:
        return spec_goal.mode == "min"
    is_time = _SECONDS.search(metric) is not None and _PER_SECOND.search(metric) is None
    return is_time or _LOWER.search(metric) is not None


# Measured by Hora, beside what a job reports: times and rates, and what is sampled of slots and hosts.
TIMES = frozenset({
    "learning_rate", "step_time_s", "samples_per_s", "epoch_s", "data_wait_s", "allreduce_s", "step_time_p50_s",
    "step_time_p95_s", "epoch_data_wait_s", "epoch_allreduce_s",
})  # fmt: skip
SAMPLED = frozenset({
    "gpu_percent", "gpu_memory_bytes", "gpu_power_w", "gpu_temperature_c", "gpu_sm_clock_mhz", "gpu_throttle",
    "gpu_processes", "cpu_percent", "memory_bytes", "network_received_bytes_per_s", "network_sent_bytes_per_s",
    "disk_read_bytes_per_s", "disk_written_bytes_per_s",
})  # fmt: skip

_FIRST_CHOICES = ("val_accuracy", "val_auc", "val_loss")  # of Hora's own loop: the defaults of the tasks
_LAST_CHOICES = ("accuracy", "loss")


def goal_metric(spec_goal: "GoalSpec | None", names: Collection[str]) -> str | None:
    """The metric that says how good a job is: its goal, else the first of the reported `names` that is a usual one.

    The names are tried in this sequence: `val_accuracy`, `val_auc`, `val_loss`, any `val_*`, `accuracy`, `loss`, any
    other that Hora did not measure itself. Of several, the first by the alphabet counts. None without a goal and
    without such names.
    """
    if spec_goal is not None:
        return spec_goal.metric
    reported = sorted(set(names) - TIMES - SAMPLED)
    validation = [name for name in reported if name.startswith("val_")]
    choices = (*_FIRST_CHOICES, *validation, *_LAST_CHOICES, *reported)
    return next((name for name in choices if name in names), None)


def best_by(
    spec_goal: "GoalSpec | None", monitor: str | None, names: Collection[str], *, is_script: bool = True
) -> str | None:
    """The metric that decides which epoch is the best: what early stopping monitors, else the goal.

    Without both it is chosen from the reported `names`. In Hora's own loop the default of early stopping,
    `val_accuracy`, stands for the default metric of the task whose `names` these are.
    """
    if not is_script and spec_goal is None and monitor == DEFAULT_METRICS[CLASSIFICATION]:
        monitor = None
    return goal_metric(spec_goal, names) if monitor is None else monitor
