"""The samples of hosts: reads them for the api, and removes old ones for `worker.retention`.

`jobs.telemetry.ingest` writes them. The rows of a host lie together, sorted by time, so both are short walks along an
index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from jobs.db.binary_rows import streamed
from jobs.db.tables import Host, HostSample
from jobs.scheduling.hosts import HostNotFound
from jobs.telemetry.blocks import at_ticks, finite_or_none, floats, integers, seconds_since, ticks_of
from jobs.telemetry.downsampling import points_to_show
from jobs.telemetry.sampled_metrics import HOST_METRICS

_BATCH_ROWS = 5000


@dataclass(frozen=True)
class HostSeries:
    """One metric of a host. `x` is seconds since the start; a gap in `y` is None."""

    metric: str
    unit: str
    x: list[float]
    y: list[float | None]


@dataclass(frozen=True)
class HostUtilization:
    """The sampled metrics of a host from `start` on."""

    start: datetime
    series: Sequence[HostSeries]


def host_utilization(
    session: Session, name: str, *, metrics: Sequence[str] = tuple(HOST_METRICS), minutes: float, max_points: int = 1000
) -> HostUtilization:
    """The last minutes of a host, sorted as `metrics`. A metric without samples is left out.

    Raises `HostNotFound`.
    """
    start: datetime | None = session.scalar(select(func.now() - timedelta(minutes=minutes)).where(_is_known(name)))
    if start is None:
        raise HostNotFound(name)
    series = []
    for metric in metrics:  # one at a time: a week has 600,000 values of each
        numbers = host_numbers(session, name, metric, first=ticks_of(start))
        if np.isfinite(numbers.values).any():
            keep = points_to_show(numbers.values, max_points)
            x, y = seconds_since(start, numbers.ticks[keep]).tolist(), numbers.values[keep]
            series.append(HostSeries(metric, HOST_METRICS[metric].unit, x, finite_or_none(y)))
    return HostUtilization(start, series)


def version_of(session: Session, name: str) -> str:
    """The time of a host's newest sample. Until there is a newer one, only time passes.

    Raises `HostNotFound`.
    """
    newest = select(func.max(HostSample.at)).where(HostSample.host == name).scalar_subquery()
    row = session.execute(select(newest).where(_is_known(name))).one_or_none()
    if row is None:
        raise HostNotFound(name)
    return str(row[0])


def _is_known(name: str) -> Any:
    return select(Host.name).where(Host.name == name).exists()


@dataclass(frozen=True)
class HostNumbers:
    """One metric of a host, sorted by time; NaN where it could not be read."""

    ticks: npt.NDArray[np.int64]  # times as PostgreSQL counts them
    values: npt.NDArray[np.float64]


def host_numbers(session: Session, name: str, metric: str, *, first: int, last: int | None = None) -> HostNumbers:
    """All samples of one of `HOST_METRICS` between two times, in ticks, both included."""
    assert metric in HOST_METRICS
    query = f"""
        SELECT string_agg(timestamptz_send(at), '' ORDER BY at),
            string_agg(float8send(coalesce({metric}::float8, 'NaN')), '' ORDER BY at)
        FROM host_samples WHERE host = %(host)s AND at >= %(first)s AND at <= %(last)s
    """  # noqa: S608 - it is one of our own names
    end = datetime.max.replace(tzinfo=UTC) if last is None else at_ticks(last)
    ((ticks, values),) = streamed(session, query, {"host": name, "first": at_ticks(first), "last": end})
    return HostNumbers(integers(ticks or b""), floats(values or b""))


@dataclass
class OldHostSamples:
    """Removes samples older than so many days, host by host, also of hosts that are no longer registered."""

    keep_days: float
    _host: str = ""  # the current one, or the last one of the pass before

    def remove_some(self, session: Session) -> bool:
        """Remove a batch of one host's samples; False when the pass is over."""
        old = HostSample.at < func.now() - timedelta(days=self.keep_days)
        some = (
            select(HostSample.at).where(HostSample.host == self._host, old).order_by(HostSample.at).limit(_BATCH_ROWS)
        )
        removed = session.scalars(
            delete(HostSample).where(HostSample.host == self._host, HostSample.at.in_(some)).returning(HostSample.at),
            execution_options={"synchronize_session": False},
        ).all()
        if len(removed) < _BATCH_ROWS:
            next_host = select(HostSample.host).where(HostSample.host > self._host).order_by(HostSample.host).limit(1)
            self._host = session.scalar(next_host) or ""
        return self._host != ""
