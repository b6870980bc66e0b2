"""What an analysis reads of scripts alone, which report as they like. Called by `reading`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db.tables import JobEvent
from jobs.insight.analysis.evidence import EpochSteps, Run
from jobs.insight.analysis.points import Part, parts
from jobs.model.states import EventKind

Ends = Mapping[int, tuple[int, float]]  # by epoch: its last step, and when its end was reported


def of_script(run: Run, ends: Ends, first_report_at: float | None) -> Run:
    """A script's attempt: its set-up ends with the first report. Without times of steps its epochs are those reported.

    The first report has no time, and neither has the first epoch if it is reported before any step.
    """
    epochs = list(run.epochs) or _reported_epochs(ends, first_report_at)
    if not epochs:
        return replace(run, is_script=True)
    first = epochs[0]
    began_at = first.began_at if first_report_at is None else min(first_report_at, first.first_ended_at)
    epochs[0] = replace(first, began_at=began_at, first_ended_at=began_at)
    return replace(run, is_script=True, epochs=epochs)


def _reported_epochs(ends: Ends, first_report_at: float | None) -> list[EpochSteps]:
    epochs: list[EpochSteps] = []
    for epoch, (step, at) in sorted(ends.items()):
        first = min(epochs[-1].last + 1, step) if epochs else min(1, step)
        began_at = epochs[-1].ended_at if epochs else at if first_report_at is None else first_report_at
        epochs.append(EpochSteps(epoch, first, step, began_at, began_at, at))
    return epochs


def first_reports(session: Session, job_id: str) -> dict[int, float]:
    """When each attempt of a script reported for the first time."""
    rows = session.execute(
        select(JobEvent.attempt, func.min(JobEvent.at))
        .where(JobEvent.job_id == job_id, JobEvent.kind == EventKind.FIRST_STEP)
        .group_by(JobEvent.attempt)
    )
    return {attempt: at.timestamp() for attempt, at in rows if attempt is not None}


def noting_intervals(times_of_steps: Iterable[Part], intervals_s: list[float]) -> Iterator[Part]:
    """The parts as they are. Adds the usual time between two points of each to `intervals_s`."""
    for part in times_of_steps:
        if len(part.at) > 1:
            intervals_s.append(float(np.median(np.diff(part.at))))
        yield part


def training_means(
    session: Session, job_id: str, metric: str, void_after: Mapping[int, int | None]
) -> dict[int, float]:
    """The mean of a metric over the valid steps of rank 0, by epoch: the counterpart of a metric of the validation."""
    means: dict[int, float] = {}
    for attempt, until in sorted(void_after.items()):
        sums: dict[int, tuple[float, int]] = {}
        for part in parts(session, job_id, attempt, (metric,), rank=0, last=until):
            known = np.isfinite(part.values)
            epochs, at = np.unique(part.epochs[known], return_inverse=True)
            totals, counts = np.bincount(at, part.values[known], len(epochs)), np.bincount(at, minlength=len(epochs))
            for epoch, total, count in zip(epochs.tolist(), totals.tolist(), counts.tolist(), strict=True):
                before, number = sums.get(epoch, (0.0, 0))
                sums[epoch] = before + total, number + count
        means |= {epoch: total / count for epoch, (total, count) in sums.items()}
    return means
