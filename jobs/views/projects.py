"""Projects, as they are asked for and answered."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from jobs.model.spec import ProjectName
from jobs.views.base import View

Description = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=1000)]
Limit = Annotated[int, Field(ge=0, le=1_000_000)]
Hours = Annotated[float, Field(ge=0, le=1e9)]

_SLOTS = "Slots that its jobs may hold at once; null: no limit"
_QUEUED = "Jobs that it may have in the queue; null: no limit"
_HOURS = "Hours of leased slots in a calendar month (UTC), after which nothing new is placed; null: no limit"


class _ProjectRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NewProject(_ProjectRequest):
    """A project as an admin asks for it."""

    name: ProjectName
    description: Description = ""
    is_open: bool = Field(True, description="Everybody may submit to it, and not its members alone")
    max_slots: Limit | None = Field(None, description=_SLOTS)
    max_queued: Limit | None = Field(None, description=_QUEUED)
    max_gpu_hours: Hours | None = Field(None, description=_HOURS)


class ProjectChanges(_ProjectRequest):
    """What is to be different: a field that is left out stays as it is, and null lifts a limit."""

    description: Description = ""
    is_open: bool = True
    is_archived: bool = Field(False, description="It takes no new jobs; those that it has go on")
    max_slots: Limit | None = None
    max_queued: Limit | None = None
    max_gpu_hours: Hours | None = None


class UsageView(View):
    """What counts against a project's quotas now."""

    slots: int = Field(description="Leased")
    queued: int = Field(description="Jobs in the queue, paused ones included")
    gpu_hours: float = Field(description="Of leased slots in this calendar month (UTC), what runs included")
    renews_at: datetime = Field(description="When the next month begins")


class ProjectView(View):
    """A project: what jobs are counted under."""

    name: str
    description: str
    is_open: bool = Field(description="Everybody may submit to it, and not its members alone")
    max_slots: int | None = Field(description=_SLOTS)
    max_queued: int | None = Field(description=_QUEUED)
    max_gpu_hours: float | None = Field(description=_HOURS)
    usage: UsageView
    members: list[str] = Field(description="Who may submit to it where it is not open, and steer its jobs")
    created_at: datetime
    archived_at: datetime | None = Field(description="Since when it takes no new jobs")
    revision: int = Field(description="Grows with every change, not with its usage")
