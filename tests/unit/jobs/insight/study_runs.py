"""Jobs of a study's cell, as the tests of its report need them."""

from collections.abc import Sequence
from typing import Any

from jobs.insight.studies.figures import Epoch, Run, cell_report
from jobs.model.states import Status
from jobs.views.studies import CellReport, Goal, Target

ACCURACY = Goal(metric="val_accuracy", mode="max")


def run(
    wall_s: float = 10.0,
    *,
    gpus: int = 1,
    status: Status = Status.SUCCEEDED,
    accuracies: Sequence[float | None] = (0.5, 0.9),
    hosts: int | None = 1,
    metrics: dict[str, float | None] | None = None,
    **summary: Any,
) -> Run:
    """A job whose epochs took a second each."""
    figures = {"wall_s": wall_s, "setup_s": 2.0, "train_samples_per_s": 1000 / wall_s, "val_accuracy": 0.9}
    good = status is Status.SUCCEEDED
    return Run(
        job_id=f"{gpus}x{wall_s:g}",
        status=status,
        gpus=gpus,
        hosts=hosts,
        fewest_gpus=gpus,
        leased_slot_s=gpus * (wall_s + 2.0),
        summary=figures | {"epochs_run": len(accuracies)} | summary if good else {},
        epochs=[Epoch(accuracy, 1.0) for accuracy in accuracies],
        metrics={name: {"last": 99.0, "best": best, "best_epoch": 1} for name, best in (metrics or {}).items()},
    )


def cell(runs: Sequence[Run], target: float | None = None, goal: Goal = ACCURACY, **values: Any) -> CellReport:
    chosen = None if target is None else Target(value=target, chosen_by="request")
    return cell_report({"gpus": runs[0].gpus, **values}, runs, goal, chosen)
