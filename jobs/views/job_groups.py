"""Groups of jobs with equal values, as the API answers them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from jobs.model.states import Status
from jobs.views.base import View

MOST_FIELDS = 3  # by which jobs are grouped
MOST_METRICS = 5  # of a group


class GroupMetric(View):
    """The best values of a metric in a group."""

    name: str
    n: int = Field(description="How many jobs have it")
    mean: float | None
    min: float | None
    max: float | None


class JobGroup(View):
    """The jobs with equal values in some fields."""

    values: list[Any] = Field(description="The value of each field of `by`; null: the jobs have none")
    where: list[str] = Field(description="The conditions that select these jobs in the list of jobs")
    jobs: int
    statuses: dict[Status, int] = Field(description="How many jobs have each status; those that none has are left out")
    newest_at: datetime = Field(description="When the newest of them was submitted")
    metric: GroupMetric | None = Field(description="The first of `metrics`; null: the request names no `metric`")
    metrics: list[GroupMetric] = Field([], description="Each `metric` of the request, in its sequence")
