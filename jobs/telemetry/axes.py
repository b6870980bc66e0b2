"""The axes of series: step, epoch and time. Used by `jobs.telemetry.series`, `samples` and `thinning`.

An epoch ends at its number: the middle of the third epoch is 2.5. Time is seconds since the job's first start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sqlalchemy import ColumnElement, CompoundSelect, Select, Subquery, and_, func, or_, select, union_all
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, MetricPoint
from jobs.telemetry.ingest import ALL_RANKS

Axis = Literal["step", "epoch", "time"]
Numbers = npt.NDArray[np.float64]
Positions = npt.NDArray[Any]  # on an axis: float64; int64 on the axis of steps

_IN_EVERY_EPOCH = "loss"  # of Hora's own loop: every epoch has a value


@dataclass(frozen=True)
class AxisRange:
    """A part of an axis, both ends included. None: open."""

    start: float | None = None
    end: float | None = None

    def contains(self, x: Positions) -> npt.NDArray[np.bool_]:
        """Which of these positions lie in it."""
        inside = np.ones(len(x), dtype=bool)
        if self.start is not None:
            inside &= x >= self.start
        if self.end is not None:
            inside &= x <= self.end
        return inside


WHOLE_AXIS = AxisRange()


@dataclass(frozen=True)
class EpochScale:
    """The step at which each epoch ended. The position of any step within its epoch follows from it."""

    ends: Numbers  # steps, ascending, from 0
    epochs: Numbers

    def epochs_of(self, steps: npt.NDArray[np.int64]) -> Numbers:
        """The positions of steps on the axis of epochs."""
        return _along(steps, self.ends, self.epochs)

    def steps_in(self, x_range: AxisRange) -> AxisRange:
        """A range of epochs in steps, with one step more on either side because of rounding."""
        ends = [None if x is None else float(_along(np.array([x]), self.epochs, self.ends)[0])
                for x in (x_range.start, x_range.end)]  # fmt: skip
        start, end = ends
        return AxisRange(None if start is None else start - 1, None if end is None else end + 1)


def _along(x: Positions, knots: Numbers, heights: Numbers) -> Numbers:
    """A line through the knots, which continues after the last one. It is exact at round shares of an epoch."""
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = (x - knots[place]) / (knots[place + 1] - knots[place])
    along: Numbers = heights[place] + share * (heights[place + 1] - heights[place])
    return along


def epoch_scale(session: Session, job: Job) -> EpochScale | None:
    """The scale of a job; None while the number of steps of an epoch is unknown."""
    return epoch_scales(session, [job])[job.id]


def epoch_scales(session: Session, jobs: Sequence[Job]) -> dict[str, EpochScale | None]:
    """The scale of each of these jobs, by its id."""
    ended: dict[str, list[tuple[int, int]]] = {job.id: [] for job in jobs}
    scripts = [job.id for job in jobs if job.code is not None]
    for job_id, epoch, step in session.execute(ends_of_epochs([*(ended.keys() - scripts)], scripts)):
        ended[job_id].append((epoch, step))
    return {job.id: scale_of(sorted(ended[job.id]), steps_per_epoch=job.plan.get("steps_per_epoch")) for job in jobs}


def ends_of_epochs(own_loop: Sequence[str], scripts: Sequence[str]) -> CompoundSelect[str, int, int]:
    """Selects the last step of each valid epoch of jobs in Hora's own loop, and of scripts.

    These are two queries: one with `OR` would read all points of every job, because the key of points starts with the
    job and the name.
    """
    point, until = MetricPoint, valid_until(*own_loop, *scripts)

    def ends(step: ColumnElement[int], *conditions: ColumnElement[bool]) -> Select[str, int, int]:
        return (
            select(point.job_id, point.epoch, step)
            .outerjoin(until, and_(until.c.job_id == point.job_id, until.c.number == point.attempt))
            .where(*conditions, point.rank == ALL_RANKS, point.epoch > 0)
            .where(or_(until.c.step.is_(None), point.step <= until.c.step))
            .group_by(point.job_id, point.epoch)
        )

    return union_all(
        ends(func.max(point.step), point.job_id.in_(own_loop), point.name == _IN_EVERY_EPOCH),
        # Every value of an epoch has the same step. Those that a script reports without an epoch come later.
        ends(func.min(point.step), point.job_id.in_(scripts)),
    )


def scale_of(ended: list[tuple[int, int]], *, steps_per_epoch: int | None) -> EpochScale | None:
    """A scale from the (epoch, last step) of the epochs that ended. The next epoch has `steps_per_epoch` steps."""
    epoch_ends = [(0, 0), *ended]
    (epoch_before, step_before), (epoch, step) = epoch_ends[-2:] if ended else (epoch_ends[0], epoch_ends[0])
    if steps_per_epoch is None:
        if not ended:
            return None
        steps_per_epoch = max(1, (step - step_before) // (epoch - epoch_before))
    epoch_ends.append((epoch + 1, step + steps_per_epoch))
    rising = [epoch_ends[0], *(later for earlier, later in pairwise(epoch_ends) if later[1] > earlier[1])]
    epochs, ends = zip(*rising, strict=True)
    return EpochScale(ends=np.array(ends, dtype=np.float64), epochs=np.array(epochs, dtype=np.float64))


def valid_until(*job_ids: str) -> Subquery:
    """For each attempt of these jobs the last step that no later attempt ran again; null: no step was run again.

    An attempt stores the step that it resumes from before it writes any point. Until then it voids nothing.
    """
    later = func.min(Attempt.resumed_step).over(partition_by=Attempt.job_id, order_by=Attempt.number, rows=(1, None))
    return select(Attempt.job_id, Attempt.number, later.label("step")).where(Attempt.job_id.in_(job_ids)).subquery()


def start_of(job: Job) -> datetime:
    """The zero of the time axis."""
    return job.started_at or job.created_at
