"""The usage of projects, read from the rows.

Called by the dispatcher, by `jobs.scheduling.queue` to say why a job waits, and by `jobs.people.projects`.
Every function works in the caller's transaction.

A GPU-hour is one slot leased for an hour, used or not. Those of live attempts are computed here. Those of ended
attempts are in `project_usage`, a row for each month (`jobs.lifecycle.usage`). One statement reads both, so an attempt
that ends meanwhile counts exactly once.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Date, Float, Select, String, bindparam, case, cast, func, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Allocation, Attempt, Host, Job, Project, ProjectUsage, Slot
from jobs.model.states import Status
from jobs.scheduling.allowances import Quota


def active_quotas(session: Session, *, among: Collection[str] | None = None) -> Mapping[str, Quota]:
    """The quotas that limit running jobs, by project. `among` are the projects to check; None: all."""
    names = [name for name in session.scalars(_names_with_quota()) if among is None or name in among]
    return quotas_of(session, names) if names else {}


def quotas_of(session: Session, names: Collection[str]) -> Mapping[str, Quota]:
    """The quotas of these projects with their usage, by name."""
    rows = session.execute(_quotas(), {"names": [*names]})
    return {
        name: Quota(name, max_slots, max_gpu_hours, slots, slot_seconds / 3600, renews_at, max_storage_gb, stored / 1e9)
        for name, max_slots, max_gpu_hours, slots, slot_seconds, renews_at, max_storage_gb, stored in rows
    }


_LOST_FOR_LONG = timedelta(minutes=5)  # then what waits in a pool may go elsewhere, and does not count any more
_STORED_BYTES = func.coalesce(Job.checkpoint_bytes, 0) + func.coalesce(Job.artifact_bytes, 0)
KEEPS_FILES = or_(Job.checkpoint_bytes > 0, Job.artifact_bytes > 0)  # as in the index that the sums are read from


def most_stored(session: Session, project: str) -> tuple[str, float] | None:
    """The ended job of a project that keeps the most, and how many gigabytes. None if none keeps anything.

    Files of a job that has not ended cannot be removed.
    """
    query = select(Job.id, cast(_STORED_BYTES, Float(53))).order_by(_STORED_BYTES.desc(), Job.id).limit(1)
    row = session.execute(query.where(Job.project == project, KEEPS_FILES, Job.ended_at.is_not(None))).one_or_none()
    return None if row is None else (row[0], row[1] / 1e9)


# These statements run in every pass. Building one takes longer than running it.
@cache
def _names_with_quota() -> Select[str]:
    limits = (Project.max_slots, Project.max_gpu_hours, Project.max_storage_gb)
    return select(Project.name).where(or_(*(limit.is_not(None) for limit in limits)))


@cache
def _quotas() -> Select[Any]:
    names = func.any(bindparam("names", type_=ARRAY(String)))
    month = func.date_trunc("month", func.now(), "UTC")
    live_s = cast(func.extract("epoch", func.now() - func.greatest(Attempt.created_at, month)), Float(53))
    # After its attempt ended, nobody can use a slot in quarantine. So no project pays for it.
    leased = (
        select(
            Job.project,
            func.count().label("slots"),
            func.sum(case((Attempt.ended_at.is_(None), func.greatest(live_s, 0.0)), else_=0.0)).label("live_s"),
        )
        .select_from(Slot)
        .join(Attempt, Attempt.id == Slot.attempt_id)
        .join(Job, Job.id == Attempt.job_id)
        .where(Job.project == names, or_(Attempt.ended_at.is_(None), Slot.quarantined_at.is_(None)))
        .group_by(Job.project)
        .subquery()
    )
    # What was handed to Slurm counts as in use before it begins. Otherwise a project could hand over more.
    pooled = (
        select(Job.project, func.sum(Allocation.gpus).label("slots"))
        .join(Allocation, (Allocation.job_id == Job.id) & (Allocation.number == Job.attempt + 1))
        .join(Host, Host.name == Allocation.pool)
        .where(
            Job.project == names,
            Job.status == Status.QUEUED,
            Allocation.over_at.is_(None),
            Host.heartbeat_at > func.now() - _LOST_FOR_LONG,
        )
        .group_by(Job.project)
        .subquery()
    )
    stored = (
        select(Job.project, func.sum(_STORED_BYTES).label("bytes"))
        .where(Job.project == names, KEEPS_FILES)
        .group_by(Job.project)
        .subquery()
    )
    this_month = cast(func.timezone("UTC", month), Date)
    seconds = func.coalesce(ProjectUsage.slot_seconds, 0.0) + func.coalesce(leased.c.live_s, 0.0)
    # In UTC again: in the session's time zone, the clocks may have changed within the month.
    next_month = func.timezone("UTC", func.timezone("UTC", month) + text("interval '1 month'"))
    return (
        select(
            Project.name,
            Project.max_slots,
            Project.max_gpu_hours,
            func.coalesce(leased.c.slots, 0) + func.coalesce(pooled.c.slots, 0),
            seconds,
            next_month,
            Project.max_storage_gb,
            cast(func.coalesce(stored.c.bytes, 0), Float(53)),
        )
        .outerjoin(stored, stored.c.project == Project.name)
        .outerjoin(leased, leased.c.project == Project.name)
        .outerjoin(pooled, pooled.c.project == Project.name)
        .outerjoin(ProjectUsage, (ProjectUsage.project == Project.name) & (ProjectUsage.month == this_month))
        .where(Project.name == names)
    )
