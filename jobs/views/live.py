"""What live streams tell: the data of each kind of event of `GET /v1/jobs/{id}/events` and `GET /v1/events`."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from jobs.model.states import EndReason, Status
from jobs.views.base import View
from jobs.views.jobs import Progress, WaitingView
from jobs.views.series import LogLineView


class Kind(StrEnum):
    """What can be told of a job; which of it is wanted is said by `include`."""

    EVENT = "event"  # an `EventView`
    STATE = "state"  # a `JobState`
    PROGRESS = "progress"  # a `jobs.views.jobs.Progress`
    METRICS = "metrics"  # a `MetricsNews`
    LOGS = "logs"  # a `LogNews`


END = "end"  # an `EndNews`, in every stream of a job


class JobState(View):
    """Where a job stands."""

    status: Status
    end_reason: EndReason | None
    error: str | None
    attempt: int
    restarts: int
    waiting: WaitingView | None = Field(description="Of a queued job")
    paused_at: datetime | None
    cancel_requested_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    revision: int = Field(description="Of the job when this was told")


class NewPoints(View):
    """Points of a series that were not told before, thinned where they were many."""

    name: str
    rank: int
    step: list[int]
    value: list[float | None]


class MetricsNews(View):
    """New points: of the series over all ranks (-1), one an epoch, and of those of every step of rank 0."""

    attempt: int
    void_after: int | None = Field(description="An attempt went on from this step: what was told beyond it is void")
    series: Sequence[NewPoints]


class LogNews(View):
    """Lines that were not told before."""

    items: Sequence[LogLineView]


class EndNews(View):
    """The job is over, and all of it that was asked for was told; the stream ends."""

    status: Status
    end_reason: EndReason | None
    revision: int


class AnyJobState(View):
    """Where a job stands, in the stream of all jobs."""

    id: str
    name: str
    owner: str
    project: str
    labels: dict[str, str]
    status: Status
    end_reason: EndReason | None
    attempt: int
    paused_at: datetime | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    revision: int


class AnyJobProgress(View):
    """How far a job has come, in the stream of all jobs."""

    id: str
    progress: Progress
