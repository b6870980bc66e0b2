"""The usage of the service over days or months: GPU-hours, jobs and their cost."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from pydantic import Field

from jobs.views.base import View

MOST_KEYS = 2
MOST_DAYS = 366
MOST_MONTHS = 60
MOST_ROWS = 20_000


class UsageKey(StrEnum):
    """What GPU-hours are added up by, besides the time."""

    PROJECT = "project"
    USER = "user"
    HOST = "host"
    DEVICE = "device"


class Period(StrEnum):
    """The times by which GPU-hours are added up, in UTC."""

    DAY = "day"
    MONTH = "month"


class UsageFigures(View):
    """What was used."""

    gpu_hours: float = Field(description="Hours of leased slots, GPUs or CPU shares")
    jobs: int = Field(description="How many jobs leased them. A job that did so in several rows counts in each")
    cost: float | None = Field(
        description="What these GPU-hours cost by the service's present prices. Null: a slot has no price"
    )


class UsageRow(UsageFigures):
    """What was used in one day or month, by one value of each key. Keys that were not asked for are null."""

    period: date = Field(description="The first day of the day or month, in UTC")
    project: str | None = Field(None, description="The project in which the GPU-hours were spent")
    user: str | None = Field(None, description="The owner of the jobs")
    host: str | None = None
    device: str | None = Field(
        None, description="The model of the GPU, or `cpu`. Null, if asked for: an earlier version did not store it"
    )


class UsageReport(View):
    """What was used from the first to the last day, both included. Days and months without usage have no rows."""

    first_day: date = Field(description="Of a month that begins before it, only the days from it on count")
    last_day: date = Field(description="Of a month that ends after it, only the days up to it count")
    by: Sequence[UsageKey]
    period_length: Period = Field(description="What a row adds up")
    items: Sequence[UsageRow] = Field(description="Sorted by their period, then by their keys")
    total: UsageFigures = Field(description="Of all rows. Each job counts once")
