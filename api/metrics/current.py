"""The current state for Prometheus: live attempts, the GPUs they hold, and hosts.

Called by the api at each scrape. So each query walks along an index, and ended jobs cost nothing. Figures that are
unknown or too old are None or left out.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, ScalarSelect, func, select, true
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, HostSample, Job, MetricPoint, Slot
from jobs.model.goals import METRIC_NAME, goal_metric
from jobs.scheduling.placement_rows import is_alive
from jobs.telemetry.ingest import ALL_RANKS
from jobs.telemetry.sampled_metrics import HOST_METRICS

_MOST_METRICS = 20  # of a job: each is a series of Prometheus
_NAME = re.compile(METRIC_NAME)  # `/metrics` needs no token, so other texts stay out of it
_PRESENT = timedelta(minutes=2)  # a host's sample that is older, by the host's own clock, is not current


@dataclass(frozen=True)
class RunningJob:
    """A job with a live attempt. Shares are of its newest epoch's time, averaged over all ranks, 0..1."""

    job_id: str
    project: str
    slots: int
    progress: Mapping[str, Any]  # as `jobs.intake.intake` stores it
    data_wait: float | None
    allreduce: float | None
    metrics: Mapping[str, float]  # the newest value of each metric, of at most `_MOST_METRICS`: the goal, then by name


@dataclass(frozen=True)
class LeasedGpu:
    """A GPU that a live attempt holds, on a host that is alive."""

    host: str
    slot: int
    job_id: str
    memory_bytes: int | None  # in all
    reading: Mapping[str, Any]  # a `worker.host.gpus.GpuReading`, a few seconds old


@dataclass(frozen=True)
class HostFigures:
    """A host, and its newest sample if that is current."""

    name: str
    is_alive: bool
    is_drained: bool
    heartbeat_age_s: float
    memory_bytes: int | None  # total
    no_space: bool
    no_store: bool
    folders: Sequence[Mapping[str, Any]]  # `jobs.runtime.space.FolderSpace`s; empty if they are not current
    sample: Mapping[str, float | None]  # of `HOST_METRICS`, by name


def running_jobs(session: Session) -> list[RunningJob]:
    """Every job with a live attempt, sorted by id."""
    columns = (Job.id, Job.project, Attempt.gpus, Job.progress, Job.metrics, Job.spec["goal"]["metric"].astext)
    shares = (_newest("epoch_s"), _newest("data_wait_s"), _newest("allreduce_s"))
    live = select(*columns, *shares).join(Job, Job.id == Attempt.job_id).where(Attempt.ended_at.is_(None))
    return [
        RunningJob(
            job_id, project, slots, progress or {}, _share(wait_s, epoch_s), _share(allreduce_s, epoch_s),
            _newest_metrics(metrics, goal or goal_metric(None, metrics)),
        )
        for job_id, project, slots, progress, metrics, goal, epoch_s, wait_s, allreduce_s in session.execute(
            live.order_by(Job.id)
        )
    ]  # fmt: skip


def _newest_metrics(metrics: Mapping[str, Mapping[str, Any]], goal: str | None) -> dict[str, float]:
    known = {name: of["last"] for name, of in metrics.items() if of["last"] is not None and _NAME.match(name)}
    names = sorted(known, key=lambda name: (name != goal, name))
    return {name: known[name] for name in names[:_MOST_METRICS]}


def _newest(name: str) -> ScalarSelect[float]:
    """The newest value over all ranks that the live attempt wrote. Values of earlier attempts may be void."""
    point = MetricPoint
    own = (point.job_id == Attempt.job_id, point.name == name, point.rank == ALL_RANKS, point.attempt == Attempt.number)
    return select(point.value).where(*own).order_by(point.step.desc()).limit(1).scalar_subquery()


def _share(part_s: float | None, whole_s: float | None) -> float | None:
    return part_s / whole_s if part_s is not None and whole_s and math.isfinite(whole_s) else None


def leased_gpus(session: Session, *, host_timeout_s: float) -> list[LeasedGpu]:
    """The GPUs that live attempts hold, sorted by host and slot."""
    rows = session.execute(
        select(Slot.host, Slot.index, Attempt.job_id, Slot.memory_bytes, Slot.reading)
        .join(Attempt, Attempt.id == Slot.attempt_id)
        .join(Host, Host.name == Slot.host)
        .where(Slot.attempt_id.is_not(None), Attempt.ended_at.is_(None), Slot.kind == "gpu")
        .where(is_alive(host_timeout_s))
        .order_by(Slot.host, Slot.index)
    )
    return [LeasedGpu(host, slot, job_id, memory, reading or {}) for host, slot, job_id, memory, reading in rows]


def hosts(session: Session, *, host_timeout_s: float) -> list[HostFigures]:
    """Every registered host, sorted by name."""
    age_s = func.extract("epoch", func.now() - Host.heartbeat_at)
    newest = (
        select(*(getattr(HostSample, name) for name in HOST_METRICS))
        .where(HostSample.host == Host.name, HostSample.at > func.now() - _PRESENT)
        .order_by(HostSample.at.desc())
        .limit(1)
        .lateral()
    )
    memory = Host.info["memory_bytes"].astext.cast(BigInteger)
    without = (Host.no_space.is_not(None), Host.no_store.is_not(None))
    rows = session.execute(
        select(Host.name, age_s, Host.drained_at.is_not(None), memory, *without, Host.folders, *newest.c)
        .outerjoin(newest, true())
        .order_by(Host.name)
    )
    figures = []
    for name, age, drained, memory_bytes, no_space, no_store, folders, *sample in rows:
        alive = abs(float(age)) <= host_timeout_s
        values: Sequence[float | None] = sample if alive else [None] * len(HOST_METRICS)
        by_column = dict(zip(HOST_METRICS, values, strict=True))
        figures.append(
            HostFigures(
                name, alive, drained, max(0.0, float(age)), memory_bytes, no_space, no_store,
                (folders or []) if alive else [], by_column,
            )
        )  # fmt: skip
    return figures
