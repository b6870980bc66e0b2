"""Metrics, utilization and log lines of jobs, and utilization of hosts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

from jobs.model.log_levels import LogLevel
from jobs.views.base import View


class LogLineView(View):
    """One line that a rank printed. Rank -1 is the launcher."""

    id: int
    at: datetime
    attempt: int
    rank: int
    level: Annotated[LogLevel, BeforeValidator(LogLevel.from_stored)] = Field(
        LogLevel.INFO, description="Read from the text: see [telemetry](telemetry.md#logs)"
    )
    text: str


class LogView(View):
    """Log lines, oldest first."""

    items: Sequence[LogLineView]
    next_after: int = Field(description="Send it as `after` to get the lines after the last one")
    previous_before: int | None = Field(
        None,
        description="With `tail` or `before`: send it as `before` to get the lines before the first one. "
        "Null: there are no earlier lines",
    )


class BandView(View):
    """Some neighbouring points, summarized. Points that were thinned out count too."""

    x_from: float = Field(description="`x` of the first point")
    x_to: float
    count: int = Field(description="Number of points whose value is a number")
    min: float
    max: float
    mean: float
    p95: float = Field(description="95th percentile. For a thinned series: an upper bound of it")


class MetricSeriesView(View):
    """One metric of one rank. Rank -1 is the mean over all ranks, with one point per epoch."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]
    bands: list[BandView]


class MetricsView(View):
    """The metrics of a job."""

    series: Sequence[MetricSeriesView]


class JobMetricsView(View):
    """Some metrics of one job."""

    id: str = Field(description="The job's id")
    series: Sequence[MetricSeriesView]


class ManyMetricsView(View):
    """The metrics of many jobs."""

    jobs: Sequence[JobMetricsView]


class SampleSeriesView(View):
    """A metric of one slot during one attempt."""

    metric: str
    unit: str
    host: str
    slot: int
    rank: int
    attempt: int
    limit: float | None = Field(description="For memory: how much the slot or its host has")
    x: list[float]
    step: list[int | None] = Field(description="The rank's newest step at that time")
    y: list[float | None]
    bands: list[BandView]


class JobHostSeriesView(View):
    """A metric of a whole host while the job ran there."""

    metric: str
    unit: str
    host: str
    limit: float | None
    x: list[float]
    y: list[float | None]
    bands: list[BandView]


class UtilizationView(View):
    """The utilization of a job's slots and hosts."""

    series: Sequence[SampleSeriesView]
    hosts: Sequence[JobHostSeriesView]


class HostSeriesView(View):
    """A metric of a host. `x` is seconds since `start`; a gap in `y` is null."""

    metric: str
    unit: str
    x: Sequence[float]
    y: Sequence[float | None]


class HostUtilizationView(View):
    """The utilization of a host."""

    start: datetime
    series: Sequence[HostSeriesView]
