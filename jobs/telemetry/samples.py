"""The reading side of the samples: what a job's slots and hosts did.

Called by the api; `jobs.telemetry.ingest` writes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.binary_rows import streamed
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.telemetry.axes import EVERYTHING, Axis, EpochScale, Stretch, epoch_scale, start_of
from jobs.telemetry.bands import Band
from jobs.telemetry.blocks import finite_or_none, floats, integers, seconds_since
from jobs.telemetry.downsampling import kept
from jobs.telemetry.host_samples import HostNumbers, host_numbers
from jobs.telemetry.rollups import NOT_ROLLED, Rolled, Series, rolled_up
from jobs.telemetry.sampled_metrics import HOST_METRICS, METRIC_NAMES, SLOT_METRICS

_NO_STEP = -1
_ROUNDED = timedelta(milliseconds=1)
_CENTURY_S = 100 * 365.25 * 86_400

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampleSeries:
    """What one slot did under one attempt; a gap in `y` is None. `limit` is the most that there is of it."""

    metric: str
    unit: str
    host: str
    slot: int
    rank: int
    attempt: int
    limit: float | None
    x: list[float]
    step: list[int | None]
    y: list[float | None]
    bands: Sequence[Band] = ()


@dataclass(frozen=True)
class JobHostSeries:
    """What a whole host did while the job was on it."""

    metric: str
    unit: str
    host: str
    limit: float | None
    x: list[float]
    y: list[float | None]
    bands: Sequence[Band] = ()


@dataclass(frozen=True)
class Utilization:
    """What a job's slots did, and its hosts."""

    series: Sequence[SampleSeries]
    hosts: Sequence[JobHostSeries]


@dataclass(frozen=True)
class _Samples:
    """The samples of one slot under one attempt, in the order of time."""

    attempt: int
    rank: int
    host: str
    slot: int
    ticks: Integers
    steps: Integers  # `_NO_STEP` where none was made yet


@dataclass(frozen=True)
class _View:
    """What is asked for, and what it takes to find it."""

    job: Job
    axis: Axis
    scale: EpochScale | None
    stretch: Stretch
    max_points: int
    bands: int

    def x(self, ticks: Integers, steps: Integers) -> Numbers:
        """Where samples lie; NaN where they are not on the axis."""
        if self.axis == "time":
            return seconds_since(start_of(self.job), ticks)
        x = np.full(len(steps), np.nan)
        there = steps != _NO_STEP
        if self.axis == "step":
            x[there] = steps[there]
        elif self.scale is not None:
            x[there] = self.scale.epochs_of(steps[there])
        return x


def utilization(
    session: Session,
    job: Job,
    *,
    wanted: Sequence[str] = METRIC_NAMES,
    axis: Axis = "time",
    stretch: Stretch = EVERYTHING,
    max_points: int = 1000,
    bands: int = 0,
) -> Utilization:
    """The samples of a job's slots, ordered by attempt and rank, and of its hosts; a metric without any is left out.

    On the axes of steps and epochs a sample is where its rank was; those before the first step are not on them.
    """
    scale = epoch_scale(session, job) if axis == "epoch" else None
    view = _View(job, axis, scale, stretch, max_points, bands)
    rolled = rolled_up(session, job, "sample", axis=axis, scale=scale, stretch=stretch) if bands else {}
    limits = _limits(session, job)
    of_slots = [metric for metric in wanted if metric in SLOT_METRICS]
    found: list[SampleSeries] = []
    steps_on: dict[str, list[_Samples]] = {}
    for samples, values in _read(session, view, of_slots):
        on_host = steps_on.setdefault(samples.host, [])
        if all(other.attempt != samples.attempt for other in on_host):
            on_host.append(samples)
        found += _series_of(view, samples, dict(zip(of_slots, values, strict=True)), rolled, limits)
    of_hosts = [metric for metric in wanted if metric in HOST_METRICS]
    return Utilization(found, list(_of_hosts(session, view, of_hosts, steps_on, limits)))


def _read(session: Session, view: _View, metrics: Sequence[str]) -> Iterator[tuple[_Samples, list[Numbers]]]:
    """The samples of each slot and attempt, and the values of each metric; NaN where there is none."""
    columns = "".join(
        f", string_agg(float8send(coalesce({metric}::float8, 'NaN')), '' ORDER BY at)" for metric in metrics
    )
    where, values = "job_id = %(job)s", {"job": view.job.id, **_times(view)}
    where += "".join(f" AND at {sign} %({name})s" for name, sign in _BOUNDS.items() if name in values)
    query = f"""
        SELECT attempt, rank, min(host), min(slot), string_agg(timestamptz_send(at), '' ORDER BY at),
            string_agg(int8send(coalesce(step, {_NO_STEP})), '' ORDER BY at){columns}
        FROM samples WHERE {where} GROUP BY attempt, rank ORDER BY attempt, rank
    """  # noqa: S608 - all names are our own
    for attempt, rank, host, slot, ticks, steps, *of_metrics in streamed(session, query, values):
        samples = _Samples(attempt, rank, host, slot, integers(ticks), integers(steps))
        yield samples, [floats(one) for one in of_metrics]


_BOUNDS = {"start": ">=", "end": "<="}


def _times(view: _View) -> dict[str, datetime]:
    """Between which times samples are needed at most, so that the database need not hand over the rest."""
    if view.axis != "time":
        return {}
    ends = {"start": (view.stretch.start, -_ROUNDED), "end": (view.stretch.end, _ROUNDED)}
    zero = start_of(view.job)
    return {
        name: zero + timedelta(seconds=min(max(x, -_CENTURY_S), _CENTURY_S)) + more
        for name, (x, more) in ends.items()
        if x is not None
    }


def _series_of(
    view: _View, samples: _Samples, values: dict[str, Numbers], rolled: dict[Series, Rolled], limits: dict[Any, float]
) -> Iterator[SampleSeries]:
    x = view.x(samples.ticks, samples.steps)
    inside = view.stretch.has(x) & ~np.isnan(x)
    x, ticks, steps = x[inside], samples.ticks[inside], samples.steps[inside]
    for metric, of_metric in values.items():
        y = of_metric[inside]
        if not np.isfinite(y).any():
            continue
        keep = kept(y, view.max_points)
        old = rolled.get((metric, samples.rank, samples.attempt), NOT_ROLLED)
        yield SampleSeries(
            metric=metric,
            unit=SLOT_METRICS[metric].unit,
            host=samples.host,
            slot=samples.slot,
            rank=samples.rank,
            attempt=samples.attempt,
            limit=limits.get((metric, samples.host, samples.slot), limits.get((metric, samples.host))),
            x=x[keep].tolist(),
            step=[None if step == _NO_STEP else step for step in steps[keep].tolist()],
            y=finite_or_none(y[keep]),
            bands=old.bands(ticks, x, y, stretch=view.stretch, count=view.bands),
        )


def _of_hosts(
    session: Session,
    view: _View,
    metrics: Sequence[str],
    steps_on: dict[str, list[_Samples]],
    limits: dict[Any, float],
) -> Iterator[JobHostSeries]:
    """What the hosts did between the first and the last sample of each attempt there."""
    for host, attempts in sorted(steps_on.items()):
        for metric in metrics:
            parts = [_while_there(session, host, metric, samples) for samples in attempts]
            ticks, steps, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            x = view.x(ticks, steps)
            inside = view.stretch.has(x) & ~np.isnan(x)
            x, y = x[inside], y[inside]
            if np.isfinite(y).any():
                keep = kept(y, view.max_points)
                told = NOT_ROLLED.bands(ticks[inside], x, y, stretch=view.stretch, count=view.bands)
                limit = limits.get((metric, host))
                yield JobHostSeries(
                    metric, HOST_METRICS[metric].unit, host, limit, x[keep].tolist(), finite_or_none(y[keep]), told
                )


def _while_there(session: Session, host: str, metric: str, samples: _Samples) -> tuple[Integers, Integers, Numbers]:
    """Times, steps and values of a host's metric under an attempt; the steps are those of one of its ranks there."""
    found: HostNumbers = host_numbers(session, host, metric, first=samples.ticks[0], last=samples.ticks[-1])
    newest = np.searchsorted(samples.ticks, found.ticks, side="right") - 1
    return found.ticks, samples.steps[newest], found.values


def _limits(session: Session, job: Job) -> dict[Any, float]:
    """The most that a slot and a host have of what has a limit, by metric, host and slot."""
    shares = session.execute(select(Attempt.host, Attempt.shares).where(Attempt.job_id == job.id))
    hosts = {host for lead, others in shares for host in (lead, *(share["host"] for share in others))}
    limits: dict[Any, float] = {}
    slots = select(Slot.host, Slot.index, Slot.memory_bytes).where(Slot.host.in_(hosts), Slot.memory_bytes.is_not(None))
    for host, slot, memory_bytes in session.execute(slots):
        limits["gpu_memory_bytes", host, slot] = float(memory_bytes or 0)
    for host, info in session.execute(select(Host.name, Host.info).where(Host.name.in_(hosts))):
        if info.get("memory_bytes"):
            limits["memory_bytes", host] = float(info["memory_bytes"])
    return limits
