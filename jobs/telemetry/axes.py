"""The axes that series are read on: step, epoch and time.

Used by `jobs.telemetry.series`, `jobs.telemetry.samples`, `jobs.telemetry.thinning`.

An epoch ends at its number: half-way through the third one is 2.5. Time is seconds since the job's first start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sqlalchemy import Subquery, and_, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, MetricPoint
from jobs.telemetry.ingest import ALL_RANKS

Axis = Literal["step", "epoch", "time"]
Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[Any]  # on an axis: float64, or int64 where it is that of steps

_ALWAYS_THERE = "loss"  # every epoch has one


@dataclass(frozen=True)
class Stretch:
    """The part of an axis that is asked for, both ends included; None is open."""

    start: float | None = None
    end: float | None = None

    def has(self, x: Places) -> npt.NDArray[np.bool_]:
        """Which of these lie in it."""
        inside = np.ones(len(x), dtype=bool)
        if self.start is not None:
            inside &= x >= self.start
        if self.end is not None:
            inside &= x <= self.end
        return inside


EVERYTHING = Stretch()


@dataclass(frozen=True)
class EpochScale:
    """At which step each epoch ended, and so where in its epoch any step is."""

    ends: Numbers  # steps, ascending, from 0
    epochs: Numbers

    def epochs_of(self, steps: npt.NDArray[np.int64]) -> Numbers:
        """Where steps are on the axis of epochs."""
        return _along(steps, self.ends, self.epochs)

    def steps_in(self, stretch: Stretch) -> Stretch:
        """A stretch of epochs in steps, and one more on either side: for what is rounded away."""
        ends = [None if x is None else float(_along(np.array([x]), self.epochs, self.ends)[0])
                for x in (stretch.start, stretch.end)]  # fmt: skip
        start, end = ends
        return Stretch(None if start is None else start - 1, None if end is None else end + 1)


def _along(x: Places, knots: Numbers, heights: Numbers) -> Numbers:
    """A line through the knots, which goes on behind the last one; exact at round shares of an epoch."""
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = (x - knots[place]) / (knots[place + 1] - knots[place])
    along: Numbers = heights[place] + share * (heights[place + 1] - heights[place])
    return along


def epoch_scale(session: Session, job: Job) -> EpochScale | None:
    """The scale of a job; None while it is not known how many steps an epoch has."""
    return epoch_scales(session, [job])[job.id]


def epoch_scales(session: Session, jobs: Sequence[Job]) -> dict[str, EpochScale | None]:
    """The scale of each of these jobs, by its id."""
    ids = [job.id for job in jobs]
    point, until = MetricPoint, valid_until(*ids)
    rows = session.execute(
        select(point.job_id, point.epoch, func.max(point.step))
        .outerjoin(until, and_(until.c.job_id == point.job_id, until.c.number == point.attempt))
        .where(point.job_id.in_(ids), point.name == _ALWAYS_THERE, point.rank == ALL_RANKS)
        .where(or_(until.c.step.is_(None), point.step <= until.c.step))
        .group_by(point.job_id, point.epoch)
        .order_by(point.job_id, point.epoch)
    )
    ended: dict[str, list[tuple[int, int]]] = {job_id: [] for job_id in ids}
    for job_id, epoch, step in rows:
        ended[job_id].append((epoch, step))
    return {job.id: scale_of(ended[job.id], steps_per_epoch=job.plan.get("steps_per_epoch")) for job in jobs}


def scale_of(ended: list[tuple[int, int]], *, steps_per_epoch: int | None) -> EpochScale | None:
    """A scale of the (epoch, last step) of all epochs that ended; the one after them has `steps_per_epoch`."""
    known = [(0, 0), *ended]
    (epoch_before, step_before), (epoch, step) = known[-2:] if ended else (known[0], known[0])
    if steps_per_epoch is None:
        if not ended:
            return None
        steps_per_epoch = max(1, (step - step_before) // (epoch - epoch_before))
    known.append((epoch + 1, step + steps_per_epoch))
    rising = [known[0], *(later for earlier, later in pairwise(known) if later[1] > earlier[1])]
    epochs, ends = zip(*rising, strict=True)
    return EpochScale(ends=np.array(ends, dtype=np.float64), epochs=np.array(epochs, dtype=np.float64))


def valid_until(*job_ids: str) -> Subquery:
    """For each attempt at these jobs the last step that no later attempt ran again; null: all of them.

    An attempt says from where it goes on before it writes any point, so one that has not said so voids nothing.
    """
    later = func.min(Attempt.resumed_step).over(partition_by=Attempt.job_id, order_by=Attempt.number, rows=(1, None))
    return select(Attempt.job_id, Attempt.number, later.label("step")).where(Attempt.job_id.in_(job_ids)).subquery()


def start_of(job: Job) -> datetime:
    """The zero of the time axis."""
    return job.started_at or job.created_at
