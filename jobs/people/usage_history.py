"""What was used in the past, by day or month: GPU-hours, jobs and cost, added up from the rows of attempts.

Called by the api. `jobs.scheduling.quotas` counts the present month of a project, from sums that it keeps for that.
Both count an attempt from its placement to its end, in the project to which its job belonged then.

    TooMuchUsage    the answer would have too many rows
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Date, Row, cast, func, select, text
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.runtime.prices import Prices
from jobs.views.usage import MOST_ROWS, Period, UsageFigures, UsageKey, UsageReport, UsageRow

# All times are without a zone, in UTC: a change of clocks in the zone of a session must not move the end of a month.
# A few sets of slots are used again and again, so their devices are looked up once for each set. Attempts of earlier
# versions do not say them: theirs are those that the slots have now. Imported runs used no slots of this service.
_USAGE = text("""
    WITH asked AS (
        SELECT CAST(:first_day AS timestamp) AS since, CAST(:last_day AS date) + interval '1 day' AS until,
            CAST('1 ' || :period AS interval) AS span
    ), spent AS (
        SELECT attempts.job_id, coalesce(attempts.project, jobs.project) AS project, jobs.owner, attempts.shares,
            attempts.created_at, coalesce(attempts.ended_at, now()) AS ended_at
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.run_id IS NULL AND (attempts.ended_at IS NULL
            OR attempts.ended_at > CAST(:first_day AS timestamp) AT TIME ZONE 'UTC')
        UNION ALL
        SELECT job_id, project, owner, shares, created_at, ended_at FROM deleted_attempts
        WHERE ended_at > CAST(:first_day AS timestamp) AT TIME ZONE 'UTC'
    ), within AS (
        SELECT job_id, project, owner, shares, span, greatest(created_at AT TIME ZONE 'UTC', asked.since) AS since,
            least(ended_at AT TIME ZONE 'UTC', asked.until) AS until
        FROM spent, asked
        WHERE (CAST(:project AS text) IS NULL OR project = :project)
            AND (CAST(:owner AS text) IS NULL OR owner = :owner)
    ), parts AS (
        SELECT job_id, project, owner, shares, period,
            extract(epoch FROM least(until, period + span) - greatest(since, period)) / 3600 AS hours
        FROM within, generate_series(date_trunc(:period, since), until, span) AS period
        WHERE since < until AND period < until
    ), places AS (
        SELECT shares, share ->> 'host' AS host, device, count(*) AS slots
        FROM (SELECT DISTINCT shares FROM parts) AS placements, jsonb_array_elements(shares) AS share,
            jsonb_array_elements_text(share -> 'slots') WITH ORDINALITY AS held (index, place),
            LATERAL (SELECT coalesce(share -> 'devices' ->> (place - 1)::int, (
                SELECT CASE kind WHEN 'cpu' THEN 'cpu' ELSE name END FROM slots
                WHERE slots.host = share ->> 'host' AND slots.index = held.index::int
            )) AS device) AS of_slot
        GROUP BY 1, 2, 3
    ), used AS (
        SELECT period, device AS priced, hours * slots AS gpu_hours, job_id,
            CASE WHEN 'project' = any(:by) THEN project END AS project,
            CASE WHEN 'user' = any(:by) THEN owner END AS "user",
            CASE WHEN 'host' = any(:by) THEN host END AS host,
            CASE WHEN 'device' = any(:by) THEN device END AS device
        FROM parts JOIN places USING (shares)
    )
    SELECT grouping(period, priced) AS level, CAST(period AS date) AS period, project, "user", host, device, priced,
        CAST(sum(gpu_hours) AS float8) AS gpu_hours, count(DISTINCT job_id) AS jobs
    FROM used
    GROUP BY GROUPING SETS (
        (period, project, "user", host, device, priced), (period, project, "user", host, device), ()
    )
    ORDER BY level DESC, period, project, "user", host, device
    LIMIT :most
""")
# The planner cannot know how few sets of slots there are, and expects millions of rows. So it would compile the
# statement, which takes longer than to run it, and sort all attempts by their slots.
_PLAN = text("SELECT set_config('jit', 'off', true), set_config('enable_mergejoin', 'off', true)")
_MOST_LINES = 1 + 5 * MOST_ROWS  # the total, a line for each row, and one for each of its devices
_PRICED, _ROW = 0, 1  # levels of lines; that of the total is the highest, so it is first
_Place = tuple[Any, ...]  # the period and the keys of a line
_WHOLE: _Place = (None,) * (1 + len(UsageKey))  # of the total


class TooMuchUsage(ValueError):
    """The answer would have more than `MOST_ROWS` rows."""

    def __init__(self) -> None:
        super().__init__(f"would give more than {MOST_ROWS:,} rows; ask for fewer days, for months, or by one key")


@dataclass(frozen=True)
class UsageQuery:
    """Which usage to add up, and by what. Both days are included."""

    first_day: date
    last_day: date
    period: Period = Period.MONTH
    by: Sequence[UsageKey] = ()
    project: str | None = None
    user: str | None = None


def today(session: Session) -> date:
    """The day in UTC, by the clock of the database, which also gives attempts their times."""
    return session.execute(select(cast(func.timezone("UTC", func.now()), Date))).scalar_one()


def this_month(session: Session, project: str) -> UsageQuery:
    """The usage of a project in this calendar month."""
    day = today(session)
    return UsageQuery(day.replace(day=1), day, project=project)


def usage_in(session: Session, query: UsageQuery, prices: Prices | None) -> UsageReport:
    """Add up what was used, that of running jobs up to now, in one statement. Raises `TooMuchUsage`."""
    session.execute(_PLAN)
    values = {
        "first_day": query.first_day, "last_day": query.last_day, "period": query.period, "by": list(query.by),
        "project": query.project, "owner": query.user, "most": _MOST_LINES + 1,
    }  # fmt: skip
    lines = session.execute(_USAGE, values).all()
    rows = [line for line in lines if line.level == _ROW]
    if len(rows) > MOST_ROWS or len(lines) > _MOST_LINES:
        raise TooMuchUsage
    costs = _costs(lines, prices)
    return UsageReport(
        first_day=query.first_day,
        last_day=query.last_day,
        by=query.by,
        period_length=query.period,
        items=[UsageRow.model_validate(row._asdict() | _figures(row, costs)) for row in rows],
        total=UsageFigures(**_figures(lines[0], costs)),
    )


def _costs(lines: Sequence[Row[Any]], prices: Prices | None) -> Mapping[_Place, float | None]:
    """What each row and the total cost. None if one of its devices has no price."""
    costs: dict[_Place, float | None] = defaultdict(lambda: None if prices is None else 0.0)
    for line in lines:
        if prices is None or line.level != _PRICED:
            continue
        price = prices.of(line.priced)
        for place in (_place(line), _WHOLE):
            before = costs[place]
            costs[place] = None if before is None or price is None else before + line.gpu_hours * price
    return costs


def _place(line: Row[Any]) -> _Place:
    return (line.period, *(getattr(line, key) for key in UsageKey))


def _figures(line: Row[Any], costs: Mapping[_Place, float | None]) -> dict[str, Any]:
    cost = costs[_place(line)]
    return {
        "gpu_hours": round(line.gpu_hours or 0.0, 6),
        "jobs": line.jobs,
        "cost": None if cost is None else round(cost, 6),
    }


def owners(session: Session) -> Sequence[str]:
    """Users who own jobs, by name, up to a thousand."""
    return session.scalars(select(Job.owner).distinct().order_by(Job.owner).limit(1000)).all()
