"""The expected starts of queued jobs as they are stored, and how good they were.

The api reads them. `worker.forecaster` computes and stores them.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, and_, cast, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, StartForecast
from jobs.model.states import Status
from jobs.scheduling.placement_rows import seconds

SHORTEST_S = 60.0  # shorter waits count as one so long: 0 s against 20 s is right
_JUDGED_DAYS = 7
_KEPT_DAYS = 8
_MOST_JUDGED = 1000  # the newest ones


@dataclass(frozen=True)
class Accuracy:
    """How good the forecasts of some `jobs` were. An error is how many times too long or too short one was, from 1."""

    jobs: int
    median_error: float
    within_2: float  # the part of the jobs whose error was 2 at most


def expected_starts_s(session: Session, job_ids: Collection[str]) -> Mapping[str, float]:
    """In how many seconds each of these queued jobs is expected to start, by id. Jobs without a forecast are left out.

    0: it should have started already. They are rounded to two figures and to 10 s, so that what is shown rests.
    """
    if not job_ids:
        return {}
    rows = session.execute(
        select(StartForecast.job_id, func.greatest(seconds(StartForecast.starts_at - func.now()), 0.0))
        .join(Job, (Job.id == StartForecast.job_id) & (Job.queued_at == StartForecast.queued_at))
        .where(
            StartForecast.job_id.in_(job_ids), StartForecast.shown_until > func.now(), Job.status == Status.QUEUED,
            Job.paused_at.is_(None), ~Job.waits_for_jobs,
        )
    )  # fmt: skip
    return {job_id: _rounded(in_s) for job_id, in_s in rows}


def _rounded(in_s: float) -> float:
    """To two figures, and to 10 s."""
    digits = -1 if in_s < 100 else 1 - math.floor(math.log10(in_s))
    return round(in_s, digits)


def forecast_accuracy(session: Session, *, waited_s: float = 0.0) -> Accuracy | None:
    """How good the first forecasts were, of the newest waits that ended in the last 7 days. None: there are none.

    Only waits that had a forecast count, and of these only the ones that were `waited_s` long from then on.
    """
    jobs, median, within = session.execute(_accuracy(waited_s)).one()
    return Accuracy(jobs, median, float(within)) if jobs else None


def store_starts(
    session: Session, starts_s: Mapping[str, float], queued_at: Mapping[str, datetime], *, now: datetime, shown_s: float
) -> None:
    """Store in how many seconds from `now` jobs are expected to start. It is shown for `shown_s`.

    The first forecast of each wait is kept beside the newest one.
    """
    rows = [
        {
            "job_id": job_id, "queued_at": queued_at[job_id], "made_at": now,
            "first_starts_at": (starts_at := now + timedelta(seconds=in_s)), "starts_at": starts_at,
            "shown_until": now + timedelta(seconds=shown_s),
        }
        for job_id, in_s in sorted(starts_s.items())
    ]  # fmt: skip
    if rows:
        written = insert(StartForecast)
        newest = {name: written.excluded[name] for name in ("starts_at", "shown_until")}
        session.execute(written.on_conflict_do_update(index_elements=["job_id", "queued_at"], set_=newest), rows)


def settle_starts(session: Session) -> None:
    """Note when jobs got their slots, and remove what nobody needs: forecasts of waits that ended without a start."""
    is_of_wait = (Attempt.job_id == StartForecast.job_id, Attempt.queued_at == StartForecast.queued_at)
    unchanged = {"synchronize_session": False}
    session.execute(
        update(StartForecast)
        .where(StartForecast.started_at.is_(None), *is_of_wait)
        .values(started_at=Attempt.created_at),
        execution_options=unchanged,
    )
    waits = exists().where(
        Job.id == StartForecast.job_id, Job.queued_at == StartForecast.queued_at, Job.status == Status.QUEUED
    )
    session.execute(
        delete(StartForecast).where(
            or_(
                StartForecast.started_at < func.now() - timedelta(days=_KEPT_DAYS),
                and_(StartForecast.started_at.is_(None), ~waits),
            )
        ),
        execution_options=unchanged,
    )


def _accuracy(waited_s: float) -> Select[Any]:
    newest = (
        select(_error().label("error"))
        .where(
            StartForecast.started_at > func.now() - timedelta(days=_JUDGED_DAYS),
            StartForecast.started_at >= StartForecast.made_at + timedelta(seconds=waited_s),
        )
        .order_by(StartForecast.started_at.desc())
        .limit(_MOST_JUDGED)
        .subquery()
    )
    median = func.percentile_cont(0.5).within_group(newest.c.error)
    return select(func.count(), median, func.avg(cast(newest.c.error <= 2.0, Integer))).select_from(newest)


def _error() -> ColumnElement[float]:
    expected = func.greatest(seconds(StartForecast.first_starts_at - StartForecast.made_at), SHORTEST_S)
    actual = func.greatest(seconds(StartForecast.started_at - StartForecast.made_at), SHORTEST_S)
    return func.greatest(expected / actual, actual / expected)
