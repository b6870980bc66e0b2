"""Adds ended attempts to the usage of their project, their user and their job, and gives jobs their levels.

Called by `leases` and `submission`, in their transactions.

`jobs.scheduling.quotas` and `jobs.scheduling.account_rows` read it back and add what live attempts hold.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Integer, String, Update, bindparam, case, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Job, RunTime
from jobs.lifecycle import bursts
from jobs.model import attained_service
from jobs.model.states import Status

# Months are in UTC, so that they are the same for everybody, and no clock change makes one an hour longer or shorter.
# Attempts that end at the same time wait for each other here. No two of them may wait in a circle: the last condition
# makes the database write the months before the hours.
_CHARGE = text("""
    WITH held AS (
        SELECT jobs.project, jobs.owner, attempts.gpus, attempts.created_at AS since, attempts.ended_at AS until,
            attempts.created_at AT TIME ZONE 'UTC' AS utc_since, attempts.ended_at AT TIME ZONE 'UTC' AS utc_until
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id WHERE attempts.id = :attempt_id
    ), months AS (
        INSERT INTO project_usage (project, month, slot_seconds)
        SELECT project, month::date, gpus * greatest(
            extract(epoch FROM least(utc_until, month + interval '1 month') - greatest(utc_since, month)), 0)
        FROM held, generate_series(date_trunc('month', utc_since), utc_until, interval '1 month') AS month
        ON CONFLICT (project, month) DO UPDATE SET slot_seconds = project_usage.slot_seconds + excluded.slot_seconds
        RETURNING month
    )
    INSERT INTO usage_hours (project, user_name, hour, slot_seconds)
    SELECT project, owner, hour,
        gpus * greatest(extract(epoch FROM least(until, hour + interval '1 hour') - greatest(since, hour)), 0)
    FROM held, generate_series(date_trunc('hour', since, 'UTC'), until, interval '1 hour') AS hour
    WHERE (SELECT count(*) FROM months) > 0
    ON CONFLICT (project, user_name, hour) DO UPDATE
    SET slot_seconds = usage_hours.slot_seconds + excluded.slot_seconds
""")


def charge(session: Session, attempt_id: int) -> None:
    """Add an attempt's slot-seconds to the usage of its project and its user. Called once, when the attempt ends.

    Attempts of one project that end at the same time wait for each other here. So this is late in their transactions.
    """
    session.execute(_CHARGE, {"attempt_id": attempt_id})


def attained(slot_s: float, *, level: int) -> dict[str, Any]:
    """The columns of a job of this level whose ended attempts held so many slot-seconds."""
    return {"slot_seconds": slot_s, "level": max(level, attained_service.level_of(slot_s))}


def expect_levels(session: Session, job_ids: Sequence[str]) -> None:
    """Give new jobs the level of what the shortest of the newest runs like them took, if there are any.

    If the durations differ much, the shortest says little, and the job is believed to be short.
    """
    session.connection().execute(_expect_levels(), {"ids": list(job_ids)})


@cache
def _expect_levels() -> Update:
    shortest_s = select(func.min(func.unnest(RunTime.durations_s).column_valued("duration_s"))).scalar_subquery()
    level = level_of(shortest_s * Job.gpus)
    of_ids = Job.id == func.any(bindparam("ids", type_=ARRAY(String)))
    return update(Job).where(of_ids, RunTime.run_key == Job.run_key, level > Job.level).values(level=level)


def level_of(slot_s: ColumnElement[float]) -> ColumnElement[int]:
    """`jobs.model.attained_service.level_of`, in the database."""
    return cast(sum(case((slot_s >= limit, 1), else_=0) for limit in attained_service.LEVELS_SLOT_S), Integer)


def raise_levels(session: Session, study_id: str) -> None:
    """Give the waiting jobs of a study the level of what the whole study has had. It counts as one job."""
    of_study = session.scalar(select(level_of(func.sum(Job.slot_seconds))).where(Job.study_id == study_id))
    if of_study:
        bursts.raise_to(session, of_study, Job.study_id == study_id, Job.status == Status.QUEUED)
