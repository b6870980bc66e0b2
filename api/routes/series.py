"""What a job has written: metrics, utilization, logs, events and attempts."""

from typing import Annotated, Literal

from fastapi import Query

from api.deps import JobId, SafeText, ServicesHere, router
from api.openapi import NO_SUCH_JOB
from api.views import AttemptView, EventView, Listed, LogView, MetricsView, UtilizationView
from jobs import history, series
from jobs.spec import MAX_GPUS
from jobs.store import get_job
from jobs.thinning import FEWEST_POINTS

routes = router("series")

_BIGINT = 2**63 - 1

MaxPoints = Annotated[
    int, Query(ge=FEWEST_POINTS, le=10_000, description="Of each series; extremes and the newest point are kept")
]
Limit = Annotated[int, Query(ge=1, le=10_000)]
Cursor = Annotated[str | None, Query(max_length=1000)]
SampleMetric = Literal[
    "gpu_percent",
    "gpu_memory_bytes",
    "gpu_power_w",
    "gpu_temperature_c",
    "gpu_sm_clock_mhz",
    "cpu_percent",
    "memory_bytes",
]


@routes.get("/jobs/{job_id}/metrics", responses=NO_SUCH_JOB)
def get_metrics(
    job_id: JobId,
    services: ServicesHere,
    name: Annotated[list[SafeText], Query(description="Only these; repeated", max_length=100)] = [],  # noqa: B006
    axis: series.Axis = "step",
    max_points: MaxPoints = 1000,
) -> MetricsView:
    """Read the metrics. The time axis is seconds since the job's first start.

    Series of rank -1 are over all ranks, with one point an epoch. The epoch axis has those, and of each rank
    `step_time_p50_s`, `step_time_p95_s`, `epoch_data_wait_s` and `epoch_allreduce_s`.
    """
    with services.sessions() as session:
        found = series.metrics(session, get_job(session, job_id), names=name, axis=axis, max_points=max_points)
    return MetricsView.model_validate({"series": found})


@routes.get("/jobs/{job_id}/utilization", responses=NO_SUCH_JOB)
def get_utilization(
    job_id: JobId,
    services: ServicesHere,
    metric: Annotated[list[SampleMetric], Query(description="Only these; repeated")] = [],  # noqa: B006
    max_points: MaxPoints = 1000,
) -> UtilizationView:
    """Read what each slot of the job was doing, about once a second."""
    wanted: tuple[str, ...] = tuple(dict.fromkeys(metric)) or tuple(series.UNITS)
    with services.sessions() as session:
        found = series.utilization(session, get_job(session, job_id), wanted=wanted, max_points=max_points)
    return UtilizationView.model_validate({"series": found})


@routes.get("/jobs/{job_id}/logs", responses=NO_SUCH_JOB)
def get_logs(
    job_id: JobId,
    services: ServicesHere,
    rank: Annotated[int | None, Query(ge=-1, le=MAX_GPUS, description="Of one rank; -1 is the launcher")] = None,
    after: Annotated[int, Query(ge=0, le=_BIGINT, description="Go on behind this line: `next_after`")] = 0,
    tail: Annotated[int | None, Query(ge=1, le=10_000, description="The newest so many lines")] = None,
    limit: Limit = 1000,
) -> LogView:
    """Read the lines that the ranks printed."""
    with services.sessions() as session:
        get_job(session, job_id)
        found = history.log_lines(session, job_id, rank=rank, after=after, tail=tail, limit=limit)
    return LogView.model_validate(found)


@routes.get("/jobs/{job_id}/events", responses=NO_SUCH_JOB)
def list_events(job_id: JobId, services: ServicesHere, limit: Limit = 1000, cursor: Cursor = None) -> Listed[EventView]:
    """Read the job's history, oldest first."""
    with services.sessions() as session:
        get_job(session, job_id)
        page = history.events(session, job_id, limit=limit, cursor=cursor)
    return Listed[EventView].model_validate(page)


@routes.get("/jobs/{job_id}/attempts", responses=NO_SUCH_JOB)
def list_attempts(
    job_id: JobId, services: ServicesHere, limit: Limit = 100, cursor: Cursor = None
) -> Listed[AttemptView]:
    """List the launches of a job, first to newest."""
    with services.sessions() as session:
        get_job(session, job_id)
        page = history.attempts(session, job_id, limit=limit, cursor=cursor)
    return Listed[AttemptView].model_validate(page)
