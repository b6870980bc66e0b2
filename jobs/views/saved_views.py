"""Saved views of the list of jobs: requests and answers."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from jobs.model import orders
from jobs.model.spec import Name, ProjectName
from jobs.model.states import Status
from jobs.model.where import MOST, MOST_CHARACTERS
from jobs.views.base import View
from jobs.views.job_groups import MOST_FIELDS

MOST_COLUMNS = 60


def _of_old(group: Any) -> Any:
    """A view of an earlier version has one text."""
    return [group] if isinstance(group, str) and group else group or []


Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=255)]
Label = Annotated[Text, Field(pattern="^[^:]+:", json_schema_extra={"format": "label"})]
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=300)]
FieldName = Annotated[Word, Field(json_schema_extra={"format": "field"})]
Order = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=orders.MOST_CHARACTERS),
    Field(json_schema_extra={"format": "field-order"}),
]
WhereText = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=MOST_CHARACTERS),
    Field(json_schema_extra={"format": "where"}),
]
Columns = Annotated[list[Word], Field(max_length=MOST_COLUMNS)]
Groups = Annotated[list[FieldName], Field(max_length=MOST_FIELDS), BeforeValidator(_of_old)]
Widths = Annotated[dict[Word, Annotated[int, Field(ge=40, le=1000)]], Field(max_length=MOST_COLUMNS)]
ViewName = Annotated[Name, Field(min_length=1)]

_COLUMNS = "From left to right, such as `status`, `spec.optimizer.name`, `metrics.val_iou`, `last.loss`, `label.team`"


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobsFilter(_Request):
    """Which jobs a view has: the parameters of `GET /v1/jobs`. A job must match each one that is set."""

    search: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    status: Annotated[list[Status], Field(max_length=20)] = []
    owner: Text | None = None
    project: Text | None = None
    label: Annotated[list[Label], Field(max_length=20)] = []
    name: Text | None = None
    study: Annotated[str, StringConstraints(pattern="^[0-9a-z]{1,32}$")] | None = None
    paused: bool | None = None
    starred: bool | None = None
    archived: bool | Literal["all"] | None = Field(None, description="`all`: archived jobs too; null: without them")
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    where: Annotated[list[WhereText], Field(max_length=MOST)] = []


class ViewContent(_Request):
    """What a view of the list of jobs shows. It replaces the whole content of a view."""

    filter: JobsFilter = JobsFilter()
    sort: Order = Field("-created_at", description="As `sort` of `GET /v1/jobs`")
    metric: Text = Field("", description="The metric of the curves; empty: the goal of each job")
    group: Groups = Field([], description="The fields by whose values the page groups the jobs; empty: not at all")
    columns: Columns = Field([], description=f"{_COLUMNS}. Empty: the usual ones")
    pinned: Columns = Field([], description="Those columns that stay while the others scroll")
    widths: Widths = Field({}, description="In pixels of the page, of those columns that do not have their usual width")
    heat: Columns = Field([], description="Those columns that are shown as a heat map")

    @model_validator(mode="after")
    def _pins_shown_columns(self) -> Self:
        hidden = sorted(set(self.pinned) - set(self.columns))
        if hidden:
            raise ValueError(f"pinned: {', '.join(hidden)} are not among the columns")
        return self


class NewViewOfJobs(_Request):
    """A view to save: your own, or a project's."""

    name: ViewName
    project: ProjectName | None = Field(None, description="The project that gets the view; null: it is your own")
    content: ViewContent = ViewContent()


class ViewOfJobsChanges(_Request):
    """Changes to a view. A field that is left out stays as it is."""

    name: ViewName | None = None
    content: ViewContent | None = None

    @property
    def values(self) -> dict[str, Any]:
        """What changes."""
        return {name: value for name in ("name", "content") if (value := getattr(self, name)) is not None}


class ViewOfJobs(View):
    """A saved view of the list of jobs."""

    id: str
    name: str
    owner: str = Field(description="Who saved it")
    project: str | None = Field(description="The project whose members may change it; null: only its owner may")
    content: ViewContent
    created_at: datetime
    updated_at: datetime
