"""Reads the samples of a job's slots and hosts. Called by the api; `jobs.telemetry.ingest` writes them."""

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
from jobs.telemetry.axes import WHOLE_AXIS, Axis, AxisRange, EpochScale, epoch_scale, start_of
from jobs.telemetry.bands import Band
from jobs.telemetry.blocks import finite_or_none, floats, integers, seconds_since
from jobs.telemetry.downsampling import points_to_show
from jobs.telemetry.host_samples import HostNumbers, host_numbers
from jobs.telemetry.rollups import NO_ROLLUPS, Series, SeriesRollups, rollups_of
from jobs.telemetry.sampled_metrics import HOST_METRICS, METRIC_NAMES, SLOT_METRICS

_NO_STEP = -1
_ROUNDED = timedelta(milliseconds=1)
_CENTURY_S = 100 * 365.25 * 86_400

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampleSeries:
    """One metric of one slot under one attempt. A gap in `y` is None. `limit` is the slot's or the host's total."""

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
    """One metric of a host while the job was on it."""

    metric: str
    unit: str
    host: str
    limit: float | None
    x: list[float]
    y: list[float | None]
    bands: Sequence[Band] = ()


@dataclass(frozen=True)
class Utilization:
    """The sampled metrics of a job's slots and hosts."""

    series: Sequence[SampleSeries]
    hosts: Sequence[JobHostSeries]


@dataclass(frozen=True)
class _Samples:
    """The samples of one slot under one attempt, sorted by time."""

    attempt: int
    rank: int
    host: str
    slot: int
    ticks: Integers
    steps: Integers  # `_NO_STEP` before the first step


@dataclass(frozen=True)
class _Request:
    """Which part of a job's samples to read, on which axis, and in how many points."""

    job: Job
    axis: Axis
    scale: EpochScale | None
    x_range: AxisRange
    max_points: int
    bands: int

    def x(self, ticks: Integers, steps: Integers) -> Numbers:
        """The samples' positions on the axis; NaN for those that are not on it."""
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
    metrics: Sequence[str] = METRIC_NAMES,
    axis: Axis = "time",
    x_range: AxisRange = WHOLE_AXIS,
    max_points: int = 1000,
    bands: int = 0,
) -> Utilization:
    """The samples of a job's slots, sorted by attempt and rank, and of its hosts. Metrics without samples are left out.

    On the axes of steps and epochs, a sample is at its rank's step at that time. Samples before the first step are left
    out there.
    """
    scale = epoch_scale(session, job) if axis == "epoch" else None
    request = _Request(job, axis, scale, x_range, max_points, bands)
    rollups = rollups_of(session, job, "sample", axis=axis, scale=scale, x_range=x_range) if bands else {}
    limits = _limits(session, job)
    slot_metrics = [metric for metric in metrics if metric in SLOT_METRICS]
    slot_series: list[SampleSeries] = []
    samples_by_host: dict[str, list[_Samples]] = {}
    for samples, values in _read(session, request, slot_metrics):
        samples_on_host = samples_by_host.setdefault(samples.host, [])
        if all(other.attempt != samples.attempt for other in samples_on_host):
            samples_on_host.append(samples)
        slot_series += _series_of(request, samples, dict(zip(slot_metrics, values, strict=True)), rollups, limits)
    host_metrics = [metric for metric in metrics if metric in HOST_METRICS]
    return Utilization(slot_series, list(_of_hosts(session, request, host_metrics, samples_by_host, limits)))


def _read(session: Session, request: _Request, metrics: Sequence[str]) -> Iterator[tuple[_Samples, list[Numbers]]]:
    """The samples of each slot and attempt, with the values of each metric; NaN where a value is unknown."""
    columns = "".join(
        f", string_agg(float8send(coalesce({metric}::float8, 'NaN')), '' ORDER BY at)" for metric in metrics
    )
    where, values = "job_id = %(job)s", {"job": request.job.id, **_times(request)}
    where += "".join(f" AND at {sign} %({name})s" for name, sign in _BOUNDS.items() if name in values)
    query = f"""
        SELECT attempt, rank, min(host), min(slot), string_agg(timestamptz_send(at), '' ORDER BY at),
            string_agg(int8send(coalesce(step, {_NO_STEP})), '' ORDER BY at){columns}
        FROM samples WHERE {where} GROUP BY attempt, rank ORDER BY attempt, rank
    """  # noqa: S608 - all names are our own
    for attempt, rank, host, slot, ticks, steps, *columns_of_metrics in streamed(session, query, values):
        samples = _Samples(attempt, rank, host, slot, integers(ticks), integers(steps))
        yield samples, [floats(data) for data in columns_of_metrics]


_BOUNDS = {"start": ">=", "end": "<="}


def _times(request: _Request) -> dict[str, datetime]:
    """The times between which all needed samples lie, so that the database sends no others."""
    if request.axis != "time":
        return {}
    ends = {"start": (request.x_range.start, -_ROUNDED), "end": (request.x_range.end, _ROUNDED)}
    zero = start_of(request.job)
    return {
        name: zero + timedelta(seconds=min(max(x, -_CENTURY_S), _CENTURY_S)) + more
        for name, (x, more) in ends.items()
        if x is not None
    }


def _series_of(
    request: _Request,
    samples: _Samples,
    values: dict[str, Numbers],
    rollups: dict[Series, SeriesRollups],
    limits: dict[Any, float],
) -> Iterator[SampleSeries]:
    x = request.x(samples.ticks, samples.steps)
    inside = request.x_range.contains(x) & ~np.isnan(x)
    x, ticks, steps = x[inside], samples.ticks[inside], samples.steps[inside]
    for metric, metric_values in values.items():
        y = metric_values[inside]
        if not np.isfinite(y).any():
            continue
        keep = points_to_show(y, request.max_points)
        rollups_of_series = rollups.get((metric, samples.rank, samples.attempt), NO_ROLLUPS)
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
            bands=rollups_of_series.bands(ticks, x, y, x_range=request.x_range, count=request.bands),
        )


def _of_hosts(
    session: Session,
    request: _Request,
    metrics: Sequence[str],
    samples_by_host: dict[str, list[_Samples]],
    limits: dict[Any, float],
) -> Iterator[JobHostSeries]:
    """The series of the hosts, from the first to the last sample of each attempt there."""
    for host, attempts in sorted(samples_by_host.items()):
        for metric in metrics:
            parts = [_while_there(session, host, metric, samples) for samples in attempts]
            ticks, steps, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            x = request.x(ticks, steps)
            inside = request.x_range.contains(x) & ~np.isnan(x)
            x, y = x[inside], y[inside]
            if np.isfinite(y).any():
                keep = points_to_show(y, request.max_points)
                bands = NO_ROLLUPS.bands(ticks[inside], x, y, x_range=request.x_range, count=request.bands)
                limit = limits.get((metric, host))
                yield JobHostSeries(
                    metric, HOST_METRICS[metric].unit, host, limit, x[keep].tolist(), finite_or_none(y[keep]), bands
                )


def _while_there(session: Session, host: str, metric: str, samples: _Samples) -> tuple[Integers, Integers, Numbers]:
    """Times, steps and values of a host's metric under an attempt. The steps are those of one of its ranks there."""
    host_values: HostNumbers = host_numbers(session, host, metric, first=samples.ticks[0], last=samples.ticks[-1])
    newest = np.searchsorted(samples.ticks, host_values.ticks, side="right") - 1
    return host_values.ticks, samples.steps[newest], host_values.values


def _limits(session: Session, job: Job) -> dict[Any, float]:
    """The memory of slots and hosts: by metric, host and slot, or by metric and host."""
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
