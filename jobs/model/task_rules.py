"""Which fields of a spec do not go with a task, and why. Pure; for submissions, and for ranks that know the data."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from jobs.model.augment_fields import Cutmix, Mixup
from jobs.model.problems import FieldProblem
from jobs.model.tasks import CLASSIFICATION, DEFAULT_METRICS, Task, no_such_metric

if TYPE_CHECKING:
    from jobs.model.spec import Spec


def unfit_fields(spec: "Spec", task: Task, names: Collection[str]) -> list[FieldProblem]:
    """What does not go with the task, and metrics that are not among the measured `names`."""
    return [*_of_recipe(spec, task), *_of_metrics(spec, task, names)]


def _of_recipe(spec: "Spec", task: Task) -> Iterator[FieldProblem]:
    if task == CLASSIFICATION:
        return
    if spec.class_weights is not None:
        yield FieldProblem("class_weights", f"only for classification, and the task is {task}: leave it out")
    if spec.label_smoothing and task == "regression":
        message = "numbers to learn cannot be smoothed, and the task is regression: leave it out"
        yield FieldProblem("label_smoothing", message, f"{spec.label_smoothing:g}")
    if spec.dataset is None:
        return
    if spec.dataset.balance:
        message = f"only for classification, where a sample has one class, and the task is {task}: leave it out"
        yield FieldProblem("dataset.balance", message, "true")
    mixes = [item.name for item in spec.dataset.augment if isinstance(item, Mixup | Cutmix)]
    if mixes and task == "regression":
        yield FieldProblem("dataset.augment", f"{mixes[0]} mixes classes, and the task is regression: leave it out")


def _of_metrics(spec: "Spec", task: Task, names: Collection[str]) -> Iterator[FieldProblem]:
    monitors = {
        "goal.metric": spec.goal and spec.goal.metric,
        "early_stopping.monitor": spec.early_stopping and spec.early_stopping.monitor,
        "schedule.monitor": spec.schedule.monitor,
    }
    for field, metric in monitors.items():
        is_default = field == "early_stopping.monitor" and metric == DEFAULT_METRICS[CLASSIFICATION]
        if metric and metric not in names and not (is_default and spec.goal is None):
            yield FieldProblem(field, no_such_metric(metric, names, task), metric)
