"""The metrics, utilization, logs and attempts of a job."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import Cursor, IfNoneMatch, JobId, SafeText, SearchText, ServicesHere, SomeJobs
from api.openapi import NO_SUCH_JOB
from api.polling import versions
from api.polling.entity_tags import UNCHANGED, answer_or_304, answer_with, is_known, tag_of, unchanged
from api.problems import invalid
from api.routes.lookups import Moment
from jobs.db.tables import Job
from jobs.lifecycle import history
from jobs.lifecycle.attempt_devices import devices_of
from jobs.lifecycle.store import get_job, some_jobs
from jobs.model.log_levels import LogLevel
from jobs.model.problems import FieldProblem
from jobs.model.spec import MAX_GPUS
from jobs.suggestions import meant
from jobs.telemetry import samples, series
from jobs.telemetry.axes import Axis, AxisRange
from jobs.telemetry.downsampling import FEWEST_POINTS
from jobs.telemetry.ingest import ALL_RANKS
from jobs.telemetry.sampled_metrics import METRIC_NAMES
from jobs.views.base import Listed
from jobs.views.jobs import AttemptView
from jobs.views.series import LogView, ManyMetricsView, MetricsView, UtilizationView

routes = router("series")

if TYPE_CHECKING:
    SampleMetric = str
else:
    SampleMetric = Literal[METRIC_NAMES]

_READ = UNCHANGED | NO_SUCH_JOB

_INT, _BIGINT = 2**31 - 1, 2**63 - 1
_MOST_POINTS = 1_000_000  # in one answer of many jobs

MaxPoints = Annotated[
    int,
    Query(
        ge=FEWEST_POINTS,
        le=10_000,
        description="The most points of each series. Spikes and the newest point are kept",
    ),
]
Bands = Annotated[int, Query(ge=0, le=500, description="The number of bands that summarize each series; 0: none")]
OnAxis = Annotated[Axis, Query(description="The quantity that `x` counts")]
From = Annotated[float | None, Query(alias="from", allow_inf_nan=False, description="Only points from this `x` on")]
To = Annotated[float | None, Query(allow_inf_nan=False, description="Only points up to this `x`")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="The page size")]
Rank = Annotated[int, Field(ge=-1, le=MAX_GPUS)]
Ranks = Annotated[
    list[Rank],
    Query(description="Only this rank; repeat it for several. -1 is the series over all ranks", max_length=100),
]
Search = Annotated[
    SearchText | None,
    Query(description="Only lines with this text. Case does not matter; there are no wildcards"),
]


@routes.get("/jobs/{job_id}/metrics", response_model=MetricsView, responses=_READ, dependencies=[TAKES_A_TURN])
def get_metrics(
    job_id: JobId,
    request: Request,
    services: ServicesHere,
    name: Annotated[list[SafeText], Query(description="Only this metric; repeat it for several", max_length=100)] = [],  # noqa: B006
    rank: Ranks = [],  # noqa: B006
    axis: OnAxis = "step",
    start: From = None,
    to: To = None,
    max_points: MaxPoints = 1000,
    bands: Bands = 0,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the metrics of a job. Time is in seconds since the job's first start. Epoch 3 goes from 2 to 3 on its axis.

    Series of rank -1 are over all ranks, with one point per epoch. The epoch axis has these, and `step_time_p50_s`,
    `step_time_p95_s`, `epoch_data_wait_s` and `epoch_allreduce_s` of each rank. To get the points of all steps on it,
    send the metric as `name`. A single name that an ended job never reported is refused; a live job may report it yet.
    """
    with services.sessions() as session:
        tag = tag_of(versions.of_metrics(session, job_id), request.url.query)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        job = get_job(session, job_id)
        of_job = series.metrics(
            session,
            job,
            names=name,
            ranks=rank,
            axis=axis,
            x_range=AxisRange(start, to),
            max_points=max_points,
            bands=bands,
        )
        if len(name) == 1 and not of_job:
            _require_metric(session, job, name[0])
    return answer_with(MetricsView.model_validate({"series": of_job}), tag)


def _require_metric(session: Session, job: Job, name: str) -> None:
    """Refuse a name that none of the metrics of an ended job has. A live job may report it yet. Raises `Invalid`."""
    if job.ended_at is None:
        return
    names = sorted({one.name for one in series.metrics(session, job, max_points=FEWEST_POINTS)})
    if names and name not in names:
        why = f"the job has no metric of this name; it has: {', '.join(names)}{meant(name, names)}"
        raise invalid([FieldProblem("name", why, name[:80])])


@routes.get("/metrics", response_model=ManyMetricsView, responses=UNCHANGED, dependencies=[TAKES_A_TURN])
def get_metrics_of_many(
    request: Request,
    services: ServicesHere,
    job: SomeJobs,
    name: Annotated[
        list[SafeText], Query(description="The name of a metric; repeat it for several", min_length=1, max_length=20)
    ],
    rank: Ranks = [ALL_RANKS],  # noqa: B006
    axis: OnAxis = "step",
    start: From = None,
    to: To = None,
    max_points: MaxPoints = 1000,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get some metrics of many jobs at once, for tables and comparisons.

    The answer has the jobs in the sequence of the query, without those that do not exist. Each job has the series of
    `/jobs/{job_id}/metrics`. The product of jobs, names, ranks and `max_points` is at most 1,000,000.
    """
    _require_few(max_points, len(set(job)) * len(set(name)) * len(set(rank)))
    with services.sessions() as session:
        tag = tag_of(versions.of_jobs_metrics(session, job), request.url.query)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        series_by_job = series.metrics_of_jobs(
            session,
            some_jobs(session, job),
            names=name,
            ranks=rank,
            axis=axis,
            x_range=AxisRange(start, to),
            max_points=max_points,
        )
    jobs = [{"id": job_id, "series": of_job} for job_id, of_job in series_by_job.items()]
    return answer_with(ManyMetricsView.model_validate({"jobs": jobs}), tag)


def _require_few(max_points: int, series_count: int) -> None:
    """Refuse a query whose answer could have too many points."""
    if series_count * max_points > _MOST_POINTS:
        allowed = (
            f"at most {_MOST_POINTS // series_count} points for each of {series_count} series (jobs x names x ranks)"
        )
        raise invalid([FieldProblem("max_points", allowed, str(max_points))])


@routes.get("/jobs/{job_id}/utilization", response_model=UtilizationView, responses=_READ, dependencies=[TAKES_A_TURN])
def get_utilization(
    job_id: JobId,
    request: Request,
    services: ServicesHere,
    metric: Annotated[list[SampleMetric], Query(description="Only this metric; repeat it for several")] = [],  # noqa: B006
    axis: OnAxis = "time",
    start: From = None,
    to: To = None,
    max_points: MaxPoints = 1000,
    bands: Bands = 0,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the utilization of a job's slots and hosts, about once a second.

    On the axes of steps and epochs, a sample is at the step that its rank had reached. Samples before the first step
    are left out.
    """
    metrics: tuple[str, ...] = tuple(dict.fromkeys(metric)) or METRIC_NAMES
    with services.sessions() as session:
        tag = tag_of(versions.of_samples(session, job_id), request.url.query)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        utilization = samples.utilization(
            session,
            get_job(session, job_id),
            metrics=metrics,
            axis=axis,
            x_range=AxisRange(start, to),
            max_points=max_points,
            bands=bands,
        )
    return answer_with(UtilizationView.model_validate(utilization), tag)


@routes.get("/jobs/{job_id}/logs", response_model=LogView, responses=_READ, dependencies=[TAKES_A_TURN])
def get_logs(
    job_id: JobId,
    request: Request,
    services: ServicesHere,
    rank: Annotated[
        list[Rank],
        Query(description="Only lines of this rank; repeat it for several. -1 is the launcher", max_length=100),
    ] = [],  # noqa: B006
    attempt: Annotated[int | None, Query(ge=1, le=_INT, description="Only lines of this attempt")] = None,
    level: Annotated[LogLevel | None, Query(description="Only lines of this level, and of more serious ones")] = None,
    search: Search = None,
    since: Annotated[Moment | None, Query(description="Only lines from this time on, in RFC 3339")] = None,
    until: Annotated[Moment | None, Query(description="Only lines before this time, in RFC 3339")] = None,
    after: Annotated[
        int, Query(ge=0, le=_BIGINT, description="Lines after this one. Send `next_after` of the previous page")
    ] = 0,
    before: Annotated[
        int | None,
        Query(
            ge=1,
            le=_BIGINT,
            description="The newest lines before this one. Send `previous_before` of the previous page",
        ),
    ] = None,
    tail: Annotated[int | None, Query(ge=1, le=10_000, description="How many of the newest lines to get")] = None,
    limit: Limit = 1000,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the lines that the ranks printed, oldest first. With `tail` or `before` these are the newest lines."""
    _require_one_way(after, before, tail)
    with services.sessions() as session:
        tag = tag_of(versions.of_logs(session, job_id), request.url.query)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        log_filter = history.LogFilter(
            ranks=rank, attempt=attempt, level=level, search=search, after=after, before=before,
            since=since, until=until,
        )  # fmt: skip
        newest = tail is not None or before is not None
        page = history.log_lines(session, job_id, log_filter, limit=tail or limit, newest=newest)
    return answer_with(LogView.model_validate(page), tag)


def _require_one_way(after: int, before: int | None, tail: int | None) -> None:
    """Refuse parameters that exclude each other."""
    if before is not None and after:
        raise invalid(
            [FieldProblem("before", "`before` and `after` exclude each other; send one of them", str(before))]
        )
    if before is not None and tail is not None:
        raise invalid(
            [FieldProblem("tail", "`tail` and `before` exclude each other; with `before`, set `limit`", str(tail))]
        )


@routes.get("/jobs/{job_id}/attempts", response_model=Listed[AttemptView], responses=_READ)
def list_attempts(
    job_id: JobId, services: ServicesHere, limit: Limit = 100, cursor: Cursor = None, if_none_match: IfNoneMatch = None
) -> Response:
    """List the attempts of a job, oldest first."""
    with services.sessions() as session:
        get_job(session, job_id)
        page = history.attempts(session, job_id, limit=limit, cursor=cursor)
        views = [AttemptView.model_validate(attempt) for attempt in page.items]
        if (prices := services.settings.prices) is not None:
            devices = devices_of(session, [attempt.shares for attempt in page.items])
            views = [
                view.model_copy(update={"price_per_hour": prices.of_all(of_attempt)})
                for view, of_attempt in zip(views, devices, strict=True)
            ]
    return answer_or_304(Listed[AttemptView](items=views, next_cursor=page.next_cursor), if_none_match)
