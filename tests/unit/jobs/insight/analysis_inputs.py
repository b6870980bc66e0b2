"""Evidence of made-up jobs, for the tests of the analysis."""

from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.insight.analysis.evidence import EpochFigures, EpochSteps, Evidence, Run, SlotSamples, Steps

SPEC = {"early_stopping": {"monitor": "val_accuracy", "min_delta": 0.001, "patience": 3}}


def steps(
    time_s: Any, data_wait_s: Any = 0.0, allreduce_s: Any = 0.0, *, count: int = 100, every: float = 1.0
) -> Steps:
    """Steps that all take the same time. A list of times has one for each rank."""
    columns = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(times, float)) for times in (time_s, data_wait_s, allreduce_s))
    )
    return Steps(1, np.arange(2, count + 2), *(np.tile(column, (count, 1)) for column in columns), every=every)


def a_run(*, step_s: float = 0.1, count: int = 101, at: float = 1000.0, **fields: Any) -> Run:
    """One epoch of `count` steps from `at` on, in an attempt that was leased ten seconds before."""
    epoch = EpochSteps(1, 1, count, at, at + step_s, at + count * step_s)
    ended_at = epoch.ended_at + 1
    run = {"number": 1, "slots": 1, "leased_at": at - 10, "started_at": at - 5, "ended_at": ended_at, "epochs": [epoch]}
    return Run(**run | {"ended_well": True} | fields)


def evidence(*steps_of_attempts: Steps, **fields: Any) -> Evidence:
    """Evidence on a job that ended, on a CPU."""
    usual: dict[str, Any] = {
        "job_id": "j", "ended": True, "spec": SPEC, "plan": {}, "summary": None, "on_gpu": False,
        "runs": [a_run()], "steps": list(steps_of_attempts),
    }  # fmt: skip
    return Evidence(**usual | fields)


def samples(
    busy: npt.ArrayLike, *, rank: int = 0, metric: str = "gpu_percent", at: float = 1000.0, **fields: Any
) -> SlotSamples:
    """The samples of one slot, one a second."""
    values = np.asarray(busy, float)
    return SlotSamples(1, rank, "ha", rank, metric, at + np.arange(len(values)), values, **fields)


def epochs(
    losses: list[float], val_losses: list[float], val_accuracies: list[float] | None = None
) -> list[EpochFigures]:
    """One epoch for each loss."""
    accuracies = val_accuracies or [1 - loss / 10 for loss in val_losses]
    rows = zip(losses, val_losses, accuracies, strict=True)
    return [
        EpochFigures(number, {"loss": loss, "val_loss": val_loss, "val_accuracy": accuracy})
        for number, (loss, val_loss, accuracy) in enumerate(rows, 1)
    ]
