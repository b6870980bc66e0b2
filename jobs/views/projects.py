"""Projects: requests and answers."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from jobs.model.spec import IdleSpec, Priority, ProjectName
from jobs.views.base import View

Description = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=1000)]
Limit = Annotated[int, Field(ge=0, le=1_000_000)]
Gigabytes = Annotated[float, Field(ge=0, le=1e9)]
Hours = Annotated[float, Field(ge=0, le=1e9)]
Share = Annotated[float, Field(gt=0, le=1000)]

_SLOTS = "Number of slots that its jobs may hold at once; null: no limit"
_QUEUED = "Number of jobs that it may have in the queue; null: no limit"
_HOURS = "GPU-hours in a calendar month (UTC). When they are used up, none of its jobs is placed; null: no limit"

_STORAGE = (
    "What the checkpoints and artifacts of its jobs may take on all hosts, in units of 10^9 bytes. Above it, none of "
    "its jobs is placed; null: no limit"
)
_PRIORITY = (
    "The ceiling for priorities: only admins submit jobs with a higher one, or raise jobs above it. null: jobs may be "
    "submitted with any priority, but only admins raise one above 50 later"
)
_SHARE = "How the slots are shared between projects that have work: with 2, a project gets twice as many as one with 1"
_IDLE = "What to do when nobody uses the slots of its jobs, for jobs whose spec has no `idle`; null: nothing"


class _ProjectRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NewProject(_ProjectRequest):
    """A project to create."""

    name: ProjectName
    description: Description = ""
    is_open: bool = Field(True, description="Whether everybody may submit to it. Otherwise only members may")
    max_slots: Limit | None = Field(None, description=_SLOTS)
    max_queued: Limit | None = Field(None, description=_QUEUED)
    max_gpu_hours: Hours | None = Field(None, description=_HOURS)
    max_storage_gb: Gigabytes | None = Field(None, description=_STORAGE)
    max_priority: Priority | None = Field(None, description=_PRIORITY)
    share: Share = Field(1.0, description=_SHARE)
    idle: IdleSpec | None = Field(None, description=_IDLE)


class ProjectChanges(_ProjectRequest):
    """Changes to a project. A field that is left out stays as it is. Null removes a limit."""

    description: Description = ""
    is_open: bool = True
    is_archived: bool = Field(False, description="Whether it refuses new jobs. Its present jobs go on")
    max_slots: Limit | None = None
    max_queued: Limit | None = None
    max_gpu_hours: Hours | None = None
    max_storage_gb: Gigabytes | None = None
    max_priority: Priority | None = None
    share: Share = 1.0
    idle: IdleSpec | None = Field(None, description="Fields that are left out stay as they are")


class UsageView(View):
    """The present usage of a project's quotas."""

    slots: int = Field(description="Slots that its jobs hold")
    queued: int = Field(description="Jobs in the queue, including paused ones")
    gpu_hours: float = Field(description="GPU-hours in this calendar month (UTC), including those of running jobs")
    cost: float | None = Field(
        None,
        description="What these GPU-hours cost by the service's present prices. Null: a slot has no price, or this is "
        "no answer about a single project",
    )
    renews_at: datetime = Field(description="When the next month begins and `gpu_hours` starts again at 0")
    storage_gb: float = Field(description="What the checkpoints and artifacts of its jobs take, in units of 10^9 bytes")


class ProjectView(View):
    """A project: a group with quotas and members. Its jobs count against its quotas."""

    name: str
    description: str
    is_open: bool = Field(description="Whether everybody may submit to it. Otherwise only members may")
    max_slots: int | None = Field(description=_SLOTS)
    max_queued: int | None = Field(description=_QUEUED)
    max_gpu_hours: float | None = Field(description=_HOURS)
    max_storage_gb: float | None = Field(description=_STORAGE)
    max_priority: int | None = Field(None, description=_PRIORITY)
    share: float = Field(1.0, description=_SHARE)
    idle: IdleSpec | None = Field(None, description=_IDLE)
    usage: UsageView
    members: list[str] = Field(description="Users who may steer its jobs, and submit to it even if it is not open")
    created_at: datetime
    archived_at: datetime | None = Field(description="Since when it refuses new jobs; null: it is not archived")
    revision: int = Field(description="A number that grows with every change of the project. Usage does not change it")
