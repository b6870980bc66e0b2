"""What the GPU-hours of a project cost in this calendar month. Called by the api."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.runtime.prices import Prices

# Of each device, null for attempts of earlier versions. Months are in UTC, as those of `jobs.lifecycle.usage`.
# Imported runs count for no usage.
_HOURS = text("""
    SELECT share -> 'devices' ->> place AS device,
        sum(greatest(extract(epoch FROM coalesce(ended_at, now()) - greatest(held.created_at, month)), 0)) / 3600
    FROM (SELECT date_trunc('month', now(), 'UTC') AS month) AS this_month,
        (SELECT attempts.created_at, attempts.ended_at, attempts.shares FROM attempts
         JOIN jobs ON jobs.id = attempts.job_id WHERE jobs.project = :project AND jobs.run_id IS NULL) AS held,
        jsonb_array_elements(shares) AS share,
        generate_series(0, jsonb_array_length(share -> 'slots') - 1) AS place
    WHERE ended_at IS NULL OR ended_at > month
    GROUP BY device
""")


def cost_this_month(session: Session, project: str, prices: Prices) -> float | None:
    """The cost so far, that of running jobs included. None if a slot has no price."""
    total = 0.0
    for device, hours in session.execute(_HOURS, {"project": project}):
        price = prices.of(device)
        if price is None:
            return None
        total += float(hours) * price
    return round(total, 4)
