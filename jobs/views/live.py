"""Live streams: the data of each kind of event of `GET /v1/jobs/{id}/events` and `GET /v1/events`."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from jobs.model.states import EndReason, Status
from jobs.views.base import View
from jobs.views.jobs import Progress, WaitingView
from jobs.views.series import LogLineView


class Kind(StrEnum):
    """The kinds of events in a job's stream. `include` chooses among them."""

    EVENT = "event"  # an `EventView`
    STATE = "state"  # a `JobState`
    PROGRESS = "progress"  # a `jobs.views.jobs.Progress`
    METRICS = "metrics"  # a `MetricsNews`
    LOGS = "logs"  # a `LogNews`


DELETED = "deleted"  # an `AnyJobDeletion`, in the stream of all jobs
END = "end"  # an `EndNews`; every stream of a job has it


class JobState(View):
    """The state of a job."""

    status: Status
    end_reason: EndReason | None
    error: str | None
    attempt: int
    restarts: int
    waiting: WaitingView | None = Field(description="Why a queued job waits")
    paused_at: datetime | None
    cancel_requested_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    revision: int = Field(description="The job's revision when this was sent")


class NewPoints(View):
    """Points of a series that were not sent before. If there are many, they are thinned."""

    name: str
    rank: int
    step: list[int]
    value: list[float | None]


class MetricsNews(View):
    """New points: of the series over all ranks (-1), one per epoch; and of the series of rank 0, one per step."""

    attempt: int
    void_after: int | None = Field(
        description="A new attempt continued from this step: drop the points after it that were sent before"
    )
    series: Sequence[NewPoints]


class LogNews(View):
    """Log lines that were not sent before."""

    items: Sequence[LogLineView]


class EndNews(View):
    """The job has ended and everything requested was sent. The stream ends."""

    status: Status
    end_reason: EndReason | None
    revision: int


class AnyJobState(View):
    """The state of a job, in the stream of all jobs."""

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
    """The progress of a job, in the stream of all jobs."""

    id: str
    progress: Progress


class AnyJobDeletion(View):
    """A job that was deleted, in the stream of all jobs. Nothing else of it is known any more."""

    id: str
