"""The usage of jobs: hosts and devices of their newest attempts, GPU-hours and cost of all. Called by the api."""

from collections.abc import Mapping, Sequence

from sqlalchemy import ARRAY, Text, any_, func, literal, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt
from jobs.lifecycle.attempt_devices import devices_of
from jobs.runtime.prices import Prices
from jobs.views.jobs import JobUsage

_HELD_H = func.extract("epoch", func.coalesce(Attempt.ended_at, func.now()) - Attempt.created_at) / 3600
# A job that was preempted often ran on the same slots often: these count together.
_BY_PLACEMENT = select(Attempt.job_id, Attempt.shares, func.sum(func.greatest(_HELD_H, 0))).group_by(
    Attempt.job_id, Attempt.shares
)
_NOTHING = JobUsage(hosts=[], devices=[], gpu_hours=0, cost=None)


def usage_of(session: Session, job_ids: Sequence[str], prices: Prices | None) -> Mapping[str, JobUsage]:
    """The usage of each of these jobs, up to now. One statement for any number of jobs."""
    of_jobs = Attempt.job_id == any_(literal(list(job_ids), ARRAY(Text)))
    newest_last = _BY_PLACEMENT.where(of_jobs).order_by(func.max(Attempt.number))
    placements = session.execute(newest_last).all()
    devices = devices_of(session, [shares for _, shares, _ in placements])
    usage = dict.fromkeys(job_ids, _NOTHING if prices is None else _NOTHING.model_copy(update={"cost": 0.0}))
    for (job_id, shares, held_h), of_slots in zip(placements, devices, strict=True):
        before, price = usage[job_id], None if prices is None else prices.of_all(of_slots)
        usage[job_id] = JobUsage(
            hosts=[share["host"] for share in shares],
            devices=list(dict.fromkeys(device for device in of_slots if device is not None)),
            gpu_hours=round(before.gpu_hours + float(held_h) * len(of_slots), 6),
            cost=None if before.cost is None or price is None else round(before.cost + float(held_h) * price, 6),
        )
    return usage
