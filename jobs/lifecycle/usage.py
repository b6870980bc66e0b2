"""Adds ended attempts to their project's usage. Called by `leases`, in its transaction.

`jobs.scheduling.quotas` reads it back and adds what live attempts hold.
"""

from sqlalchemy import text
from sqlalchemy.orm import Session

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


def charge(session: Session, attempt_id: int) -> None:
    """Add an attempt's slot-seconds to its project's usage, split by month. Called once, when the attempt ends.

    Attempts of one project that end at the same time wait for each other here. So this is late in their transactions.
    """
    session.execute(_CHARGE, {"attempt_id": attempt_id})
