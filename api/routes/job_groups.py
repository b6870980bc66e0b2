"""List groups of jobs."""

from typing import Annotated

from fastapi import Query
from pydantic import StringConstraints

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import Cursor, PageLimit, ServicesHere
from api.routes.lookups import Filter, check_fields
from jobs.lifecycle.job_groups import GroupQuery, list_groups
from jobs.model.goals import METRIC_NAME
from jobs.views.base import Listed
from jobs.views.job_groups import MOST_FIELDS, MOST_METRICS, JobGroup
from jobs.views.saved_views import FieldName

routes = router("jobs")

By = Annotated[
    list[FieldName],
    Query(
        description=f"The field whose equal values make a group; repeat it, for up to {MOST_FIELDS}",
        min_length=1,
        max_length=MOST_FIELDS,
        examples=[["spec.optimizer.name", "batch"]],
    ),
]
Metrics = Annotated[
    list[Annotated[str, StringConstraints(pattern=METRIC_NAME)]],
    Query(
        description="The metric whose best values to sum up, such as `val_accuracy`; repeat it, for up to "
        f"{MOST_METRICS}",
        max_length=MOST_METRICS,
        examples=[["val_accuracy", "val_loss"]],
    ),
]


@routes.get("/jobs/groups", dependencies=[TAKES_A_TURN])
def list_job_groups(
    services: ServicesHere,
    jobs: Filter,
    by: By,
    metric: Metrics = [],  # noqa: B006
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[JobGroup]:
    """List groups of jobs with equal values, those with the newest job first. All filters of the list of jobs apply."""
    check_fields("by", by)
    with services.sessions() as session:
        page = list_groups(session, GroupQuery(tuple(by), jobs, tuple(dict.fromkeys(metric)), limit, cursor))
    return Listed(items=page.items, next_cursor=page.next_cursor)
