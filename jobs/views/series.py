"""What jobs and hosts write: metrics, utilization, lines."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from jobs.views.base import View


class LogLineView(View):
    """One line that a rank printed; rank -1 is the launcher."""

    id: int
    at: datetime
    attempt: int
    rank: int
    text: str


class LogView(View):
    """Lines, oldest first."""

    items: Sequence[LogLineView]
    next_after: int = Field(description="As `after` it goes on behind the last one")
    previous_before: int | None = Field(
        None, description="Of `tail` and `before`: as `before` it goes back before the first one; null: there is none"
    )


class BandView(View):
    """What some neighbouring points came to: all that there were, whether they are kept or not."""

    x_from: float = Field(description="Of the first of them")
    x_to: float
    count: int = Field(description="Of those that are numbers")
    min: float
    max: float
    mean: float
    p95: float = Field(description="95 % do not exceed it. Of a series that was thinned: at least that")


class MetricSeriesView(View):
    """One metric of one rank; rank -1 is the mean over all ranks, one point an epoch."""

    name: str
    rank: int
    x: list[float]
    y: list[float | None]
    bands: list[BandView]


class MetricsView(View):
    """The metrics of a job."""

    series: Sequence[MetricSeriesView]


class JobMetricsView(View):
    """Some metrics of one of many jobs."""

    id: str = Field(description="The job's")
    series: Sequence[MetricSeriesView]


class ManyMetricsView(View):
    """The metrics of many jobs."""

    jobs: Sequence[JobMetricsView]


class SampleSeriesView(View):
    """What one slot did during one attempt."""

    metric: str
    unit: str
    host: str
    slot: int
    rank: int
    attempt: int
    limit: float | None = Field(description="The most that the slot, or its host, has of it: of memory")
    x: list[float]
    step: list[int | None] = Field(description="The newest step of the rank at the time")
    y: list[float | None]
    bands: list[BandView]


class JobHostSeriesView(View):
    """What a whole host did while the job was on it."""

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
    """What a whole host did."""

    start: datetime
    series: Sequence[HostSeriesView]
