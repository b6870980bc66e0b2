"""Reads the metrics of jobs that have one value an epoch, without the points that are void.

Called by `report` and `trials`. These series are never thinned.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from jobs.db.tables import MetricPoint
from jobs.insight.studies.figures import Series
from jobs.telemetry.ingest import ALL_RANKS


def epoch_series(
    session: Session, job_ids: Sequence[str], attempts: Mapping[str, Sequence[Any]], names: Collection[str]
) -> Mapping[str, Mapping[str, Series]]:
    """The series of these metrics, by job and name. `attempts` are those of each job: `number`, `resumed_step`.

    If two attempts ran an epoch, only the valid one counts. A script whose first report ends an epoch has no `epoch_s`
    for it: that time is a part of the set-up.
    """
    point = MetricPoint
    columns = [point.epoch, point.step, point.attempt, point.value]
    in_sequence = [func.array_agg(aggregate_order_by(column, point.step, point.attempt)) for column in columns]
    rows = session.execute(
        select(point.job_id, point.name, *in_sequence)
        .where(point.job_id.in_(job_ids), point.name.in_(names), point.rank == ALL_RANKS, point.epoch > 0)
        .group_by(point.job_id, point.name)
    )
    series: dict[str, dict[str, Series]] = defaultdict(dict)
    for job_id, name, *arrays in rows:
        own_attempts = attempts.get(job_id, ())
        by_epoch = {
            epoch: value
            for epoch, step, number, value in zip(*arrays, strict=True)
            if len(own_attempts) < 2 or _is_valid(step, number, own_attempts)
        }
        series[job_id][name] = dict(sorted(by_epoch.items()))
    return series


def _is_valid(step: int, number: int, attempts: Sequence[Any]) -> bool:
    """Whether no later attempt ran the step again."""
    later = (attempt.resumed_step for attempt in attempts if attempt.number > number)
    return all(resumed is None or step <= resumed for resumed in later)
