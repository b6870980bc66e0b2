"""Adds ended attempts to the usage of their project, their user and their job, and gives jobs their levels.

Called by `leases` and `submission`, in their transactions.

`jobs.scheduling.quotas` and `jobs.scheduling.account_rows` read it back and add what live attempts hold.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Float, Integer, case, cast, func, select, text, update
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, RunTime
from jobs.lifecycle import bursts
from jobs.model.attained_service import LEVELS_SLOT_S
from jobs.model.states import Status

# Months are in UTC, so that they are the same for everybody, and no clock change makes one an hour longer or shorter.
_CHARGE = text("""
    INSERT INTO project_usage (project, month, slot_seconds)
    SELECT project, month::date,
        gpus * greatest(extract(epoch FROM least(until, month + interval '1 month') - greatest(since, month)), 0)
    FROM (
        SELECT jobs.project, attempts.gpus,
            attempts.created_at AT TIME ZONE 'UTC' AS since, attempts.ended_at AT TIME ZONE 'UTC' AS until
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id WHERE attempts.id = :attempt_id
    ) AS held, generate_series(date_trunc('month', since), until, interval '1 month') AS month
    ON CONFLICT (project, month) DO UPDATE SET slot_seconds = project_usage.slot_seconds + excluded.slot_seconds
""")

_CHARGE_HOURS = text("""
    INSERT INTO usage_hours (project, user_name, hour, slot_seconds)
    SELECT project, owner, hour,
        gpus * greatest(extract(epoch FROM least(until, hour + interval '1 hour') - greatest(since, hour)), 0)
    FROM (
        SELECT jobs.project, jobs.owner, attempts.gpus, attempts.created_at AS since, attempts.ended_at AS until
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id WHERE attempts.id = :attempt_id
    ) AS held, generate_series(date_trunc('hour', since, 'UTC'), until, interval '1 hour') AS hour
    ON CONFLICT (project, user_name, hour) DO UPDATE
    SET slot_seconds = usage_hours.slot_seconds + excluded.slot_seconds
""")


def charge(session: Session, attempt_id: int) -> None:
    """Add an attempt's slot-seconds to the usage of its project, user and job. Called once, when the attempt ends.

    Attempts of one project that end at the same time wait for each other here. So this is late in their transactions.
    """
    session.execute(_CHARGE, {"attempt_id": attempt_id})
    session.execute(_CHARGE_HOURS, {"attempt_id": attempt_id})
    held_s = func.greatest(cast(func.extract("epoch", Attempt.ended_at - Attempt.created_at), Float(53)), 0.0)
    slot_s = Job.slot_seconds + held_s * Attempt.gpus
    charged = session.execute(
        update(Job)
        .where(Attempt.id == attempt_id, Job.id == Attempt.job_id)
        .values(slot_seconds=slot_s, level=func.greatest(Job.level, level_of(slot_s)))
        .returning(Job.study_id, Job.burst, Job.slot_seconds),
        execution_options={"synchronize_session": False},
    ).one()
    if charged.study_id is not None:
        raise_levels(session, charged.study_id)
    if charged.burst is not None and charged.slot_seconds >= LEVELS_SLOT_S[0]:
        bursts.raise_waiting(session, charged.burst)


def expect_levels(session: Session, job_ids: Sequence[str]) -> None:
    """Give new jobs the level of what the shortest of the newest runs like them took, if there are any.

    If the durations differ much, the shortest says little, and the job is believed to be short.
    """
    shortest_s = select(func.min(func.unnest(RunTime.durations_s).column_valued("duration_s"))).scalar_subquery()
    level = level_of(shortest_s * Job.gpus)
    expected = update(Job).where(Job.id.in_(job_ids), RunTime.run_key == Job.run_key, level > Job.level)
    session.execute(expected.values(level=level))


def level_of(slot_s: ColumnElement[float]) -> ColumnElement[int]:
    """`jobs.model.attained_service.level_of`, in the database."""
    return cast(sum(case((slot_s >= limit, 1), else_=0) for limit in LEVELS_SLOT_S), Integer)


def raise_levels(session: Session, study_id: str) -> None:
    """Give the waiting jobs of a study the level of what the whole study has had. It counts as one job."""
    of_study = session.scalar(select(level_of(func.sum(Job.slot_seconds))).where(Job.study_id == study_id))
    if of_study:
        bursts.raise_to(session, of_study, Job.study_id == study_id, Job.status == Status.QUEUED)
