"""What hosts did, second by second: reading it back for the api, and removing what is old for `worker.retention`.

`jobs.telemetry.ingest` writes it. The rows of one host lie together in the order of time, so both are short walks along
an index.
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
from jobs.telemetry.downsampling import kept
from jobs.telemetry.sampled_metrics import HOST_METRICS

_BATCH_ROWS = 5000


@dataclass(frozen=True)
class HostSeries:
    """One metric of a host. `x` is seconds since the start of the stretch; a gap in `y` is None."""

    metric: str
    unit: str
    x: list[float]
    y: list[float | None]


@dataclass(frozen=True)
class HostUtilization:
    """What a host did from `start` on."""

    start: datetime
    series: Sequence[HostSeries]


def host_utilization(
    session: Session, name: str, *, wanted: Sequence[str] = tuple(HOST_METRICS), minutes: float, max_points: int = 1000
) -> HostUtilization:
    """The last minutes of a host, in the order of `wanted`; a metric that no sample has is left out.

    Raises `HostNotFound`.
    """
    start: datetime | None = session.scalar(select(func.now() - timedelta(minutes=minutes)).where(_is_known(name)))
    if start is None:
        raise HostNotFound(name)
    found = []
    for metric in wanted:  # one at a time: a week of one is 600,000 numbers
        numbers = host_numbers(session, name, metric, first=ticks_of(start))
        if np.isfinite(numbers.values).any():
            keep = kept(numbers.values, max_points)
            x, y = seconds_since(start, numbers.ticks[keep]).tolist(), numbers.values[keep]
            found.append(HostSeries(metric, HOST_METRICS[metric].unit, x, finite_or_none(y)))
    return HostUtilization(start, found)


def version_of(session: Session, name: str) -> str:
    """The time of a host's newest sample: until there is a newer one, nothing changes but that time goes by.

    Raises `HostNotFound`.
    """
    newest = select(func.max(HostSample.at)).where(HostSample.host == name).scalar_subquery()
    found = session.execute(select(newest).where(_is_known(name))).one_or_none()
    if found is None:
        raise HostNotFound(name)
    return str(found[0])


def _is_known(name: str) -> Any:
    return select(Host.name).where(Host.name == name).exists()


@dataclass(frozen=True)
class HostNumbers:
    """One metric of a host, in the order of time; NaN where it could not be read."""

    ticks: npt.NDArray[np.int64]  # times as PostgreSQL counts them
    values: npt.NDArray[np.float64]


def host_numbers(session: Session, name: str, metric: str, *, first: int, last: int | None = None) -> HostNumbers:
    """All samples of a metric of `HOST_METRICS` from one time to another, in ticks; both included."""
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
    """Removes what is older than so many days, a host after the other; those that are no longer known too."""

    keep_days: float
    _host: str = ""  # the one that is at hand, or the last one of the pass before

    def remove_some(self, session: Session) -> bool:
        """Remove a batch of one host's; False when the pass is over."""
        old = HostSample.at < func.now() - timedelta(days=self.keep_days)
        some = (
            select(HostSample.at).where(HostSample.host == self._host, old).order_by(HostSample.at).limit(_BATCH_ROWS)
        )
        removed = session.scalars(
            delete(HostSample).where(HostSample.host == self._host, HostSample.at.in_(some)).returning(HostSample.at),
            execution_options={"synchronize_session": False},
        ).all()
        if len(removed) < _BATCH_ROWS:
            next_one = select(HostSample.host).where(HostSample.host > self._host).order_by(HostSample.host).limit(1)
            self._host = session.scalar(next_one) or ""
        return self._host != ""
