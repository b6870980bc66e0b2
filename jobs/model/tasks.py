"""What a network learns to tell, and by which metrics each epoch is measured. Pure; used by all parts.

classification   one class of several
regression       one or several numbers
multilabel       which of several classes apply, also none or all
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from jobs.suggestions import meant

Task = Literal["classification", "regression", "multilabel"]
AnyTask = Literal["auto", "classification", "regression", "multilabel"]  # auto: as the labels of the data say

CLASSIFICATION: Task = "classification"
TASKS: tuple[Task, ...] = get_args(Task)

_TRAINED: dict[Task, tuple[str, ...]] = {  # on the batches of the steps
    "classification": ("loss", "accuracy"),
    "regression": ("loss", "mae"),
    "multilabel": ("loss", "f1"),
}
VALIDATED: dict[Task, tuple[str, ...]] = {  # on the validation and the test part
    "classification": ("loss", "accuracy", "top5", "auc"),
    "regression": ("loss", "mae", "rmse"),
    "multilabel": ("loss", "auc", "f1"),
}
TRAINED_METRICS = tuple(dict.fromkeys(name for names in _TRAINED.values() for name in names))  # of steps, of any task
_TIMED = ("samples_per_s", "epoch_s", "data_wait_s", "allreduce_s")
DEFAULT_METRICS: dict[Task, str] = {
    "classification": "val_accuracy",
    "regression": "val_loss",
    "multilabel": "val_auc",
}


def epoch_metrics(task: AnyTask, classes: int | None = None) -> tuple[str, ...]:
    """The metrics that an epoch of a task is measured by; with `auto` those of all tasks.

    Of a classification, `val_top5` is only there with more than 5 classes, and `val_auc` only with 2. None: unknown.
    """
    names: dict[str, None] = {}
    for each in TASKS if task == "auto" else (task,):
        validated = [name for name in VALIDATED[each] if each != CLASSIFICATION or has_metric(name, classes)]
        names |= dict.fromkeys([*_TRAINED[each], *(f"val_{name}" for name in validated)])
    return (*names, *_TIMED)


def has_metric(name: str, classes: int | None) -> bool:
    """Whether a classification with so many classes has a metric."""
    return classes is None or {"top5": classes > 5, "auc": classes == 2}.get(name, True)


def task_of(wanted: AnyTask, dataset: Mapping[str, Any] | None) -> Task:
    """The task of a job by its spec, and if that says `auto` by its opened data; classification until then."""
    if wanted != "auto":
        return wanted
    task: Task = (dataset or {}).get("task") or CLASSIFICATION
    return task


def no_such_metric(metric: str, names: Collection[str], task: str) -> str:
    """What to say of a metric that is not measured."""
    of_task = "" if task == "auto" else f" of {task}"
    return f"no such metric{of_task}; there are: {', '.join(names)}{meant(metric, names)}"
