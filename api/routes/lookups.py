"""List jobs, and get one."""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import AwareDatetime, BeforeValidator, Field

from api.callers import router
from api.costs import LONG_PAGE_TAKES_A_TURN
from api.deps import (
    Cursor,
    IfNoneMatch,
    JobId,
    LabelText,
    NameText,
    OfStudy,
    PageLimit,
    SafeText,
    SearchText,
    Services,
    ServicesHere,
)
from api.openapi import NO_SUCH_JOB
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, job_tag, unchanged
from api.polling.job_tags import JobTags, page_tag, standings_of
from api.problems import invalid
from api.row_views import job_view
from api.unchanged_polls import PolledRoute
from jobs.lifecycle import store
from jobs.lifecycle.job_usage import usage_of
from jobs.lifecycle.list_sorts import FieldOrder, Order, known_order
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.model.job_fields import UnknownField, kind_of
from jobs.model.orders import MOST as MOST_SORTED
from jobs.model.printable import one_form
from jobs.model.problems import FieldProblem
from jobs.model.states import Status
from jobs.model.where import MOST, Where, WrongWhere, all_of, parsed
from jobs.suggestions import each_meant
from jobs.views.base import Listed
from jobs.views.jobs import JobView
from jobs.views.saved_views import WhereText
from jobs.wording import shortened

routes = router("jobs")

Value = TypeVar("Value")

_DATE_AND_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")


def _written_out(value: Any) -> Any:
    """Refuse a number in place of a time."""
    if isinstance(value, str) and not _DATE_AND_TIME.match(value):
        raise ValueError("write it as 2030-01-31T09:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]

Statuses = Annotated[
    list[Annotated[str, Field(json_schema_extra={"format": "statuses"})]],
    Query(
        description=f"Jobs with one of these: {', '.join(Status)}. Repeat it, or separate with commas",
        max_length=20,
        examples=[["running"]],
    ),
]
Labels = Annotated[
    list[LabelText],
    Query(
        description="Jobs with this label, as `key:value`; repeat it for several",
        max_length=20,
        examples=[["team:vision"]],
    ),
]
Name = Annotated[NameText | None, Query(description="Jobs of this name")]
Owner = Annotated[SafeText | None, Query(description="Jobs of this user")]
Project = Annotated[SafeText | None, Query(description="Jobs of this project")]
Paused = Annotated[bool | None, Query(description="`true`: only paused jobs; `false`: only others")]
Starred = Annotated[bool | None, Query(description="`true`: only jobs with a star; `false`: only others")]
Archived = Annotated[bool | None, Query(description="`true`: only archived jobs; `false`: only others")]
Since = Annotated[Moment | None, Query(description="Jobs submitted at this time or later, in RFC 3339")]
Until = Annotated[Moment | None, Query(description="Jobs submitted before this time, in RFC 3339")]
Search = Annotated[
    SearchText | None,
    Query(
        description="Jobs with this text in their name, id, owner, dataset's source, model's name, a label or their "
        "notes. "
        "Case does not matter; there are no wildcards"
    ),
]
Wheres = Annotated[
    list[WhereText],
    Query(
        description="A condition about any field, as `FIELD OP VALUE` with one of `= != < <= > >= ~ !~`; `FIELD`: the "
        "job has a value, `!FIELD`: it has none. Several with ` or ` between them: one of them holds. Repeat it: all "
        "must hold. See docs/fields.md",
        max_length=MOST,
        examples=[["spec.batch_size>=64", "metrics.val_accuracy > 0.9 or starred"]],
    ),
]
Sort = Annotated[
    Order | FieldOrder,
    BeforeValidator(known_order),
    Query(
        description=f"The field to sort by; a minus puts the greatest first. Up to {MOST_SORTED} fields with commas "
        "between them sort by the first, then by the second, and so on. A time that has not come yet counts as the "
        "greatest. Jobs without the figure come last in both directions. Any field of a condition is "
        "one too, such as `spec.batch_size`, or `metrics.val_iou`: the best value of a metric",
    ),
]


async def _filter_of_query(
    status: Statuses = [],  # noqa: B006
    label: Labels = [],  # noqa: B006
    name: Name = None,
    owner: Owner = None,
    project: Project = None,
    paused: Paused = None,
    study: OfStudy = None,
    starred: Starred = None,
    archived: Archived = None,
    since: Since = None,
    until: Until = None,
    search: Search = None,
    where: Wheres = [],  # noqa: B006
) -> JobFilter:
    return JobFilter(
        statuses=statuses_of(status), labels=labels_of(label), name=name, owner=owner, project=project,
        paused=paused, study=study, starred=starred, archived=archived, since=since, until=until, search=search,
        where=wheres_of(where),
    )  # fmt: skip


Filter = Annotated[JobFilter, Depends(_filter_of_query)]


@routes.get("/jobs", response_model=Listed[JobView], responses=UNCHANGED, dependencies=[LONG_PAGE_TAKES_A_TURN])
async def list_all_jobs(
    services: ServicesHere,
    jobs: Filter,
    sort: Sort = "-created_at",
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List jobs, page by page. With `If-None-Match` an unchanged page gets 304."""
    query = ListQuery(jobs, order=sort, limit=limit, cursor=cursor)
    # Polls that share their reads must not wait for a slow one.
    if if_none_match is None or query.reads_all:
        return await run_in_threadpool(_page, services, query, if_none_match)
    tag = await services.job_tags.page_tag(query)
    return unchanged(tag) if is_known(tag, if_none_match) else await run_in_threadpool(_page, services, query)


def _page(services: Services, query: ListQuery, if_none_match: str | None = None) -> Response:
    with services.sessions() as session:
        page = list_jobs(session, query)
        waiting = standings_of(session, page.items, host_timeout_s=services.settings.host_timeout_s)
        usage = usage_of(session, [job.id for job in page.items], services.settings.prices)
    views = [job_view(job, is_whole=False, standing=waiting.get(job.id), usage=usage[job.id]) for job in page.items]
    tag = page_tag(query, page.items, waiting, has_more=page.next_cursor is not None)
    if is_known(tag, if_none_match):
        return unchanged(tag)
    return answer_with(Listed[JobView](items=views, next_cursor=page.next_cursor), tag)


def statuses_of(values: list[str]) -> frozenset[Status]:
    """The statuses of the query. Raises a problem that names every wrong one."""
    names = [name for value in values for name in value.split(",") if name]
    wrong = [name for name in names if name not in set(Status)]
    if wrong:
        why, proposals = f"no such status; allowed: {', '.join(Status)}", each_meant(wrong, Status)
        raise invalid(
            [FieldProblem("status", why + more, name[:80]) for name, more in zip(wrong, proposals, strict=True)]
        )
    return frozenset(map(Status, names))


def labels_of(texts: list[str]) -> tuple[tuple[str, str], ...]:
    """The labels of the query. Raises a problem that names every wrong one."""
    wrong = [text for text in texts if not text.partition(":")[1]]
    if wrong:
        raise invalid([FieldProblem("label", "write it as key:value", text[:80]) for text in wrong])
    return tuple((key, one_form(value)) for key, _, value in (text.partition(":") for text in texts))


def wheres_of(texts: list[str], field: str = "where") -> tuple[Where, ...]:
    """The conditions of the query. Raises a problem that names every wrong one."""
    wheres = _each(field, texts, parsed)
    try:
        return all_of(wheres)
    except WrongWhere as error:
        raise invalid([FieldProblem(field, str(error))]) from None


def check_fields(field: str, names: list[str]) -> None:
    """Refuse names that no field has. Raises a problem that names every wrong one."""
    _each(field, names, kind_of)


def _each(field: str, texts: list[str], read: Callable[[str], Value]) -> list[Value]:
    values, problems = [], []
    for text in texts:
        try:
            values.append(read(text))
        except (WrongWhere, UnknownField) as error:
            problems.append(FieldProblem(field, str(error), shortened(text)))
    if problems:
        raise invalid(problems)
    return values


@routes.get("/jobs/{job_id}", response_model=JobView, responses=UNCHANGED | NO_SUCH_JOB)
async def get_job(job_id: JobId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get a job. With `If-None-Match` an unchanged job gets 304."""
    return await run_in_threadpool(_job, services, job_id, if_none_match)


def _job(services: Services, job_id: str, if_none_match: str | None) -> Response:
    with services.sessions() as session:
        job = store.get_job(session, job_id)
        standing = standings_of(session, [job], host_timeout_s=services.settings.host_timeout_s).get(job_id)
        usage = usage_of(session, [job_id], services.settings.prices)[job_id]
        view = job_view(job, standing=standing, usage=usage)
    tag = job_tag(view.revision, standing)
    return unchanged(tag) if is_known(tag, if_none_match) else answer_with(view, tag)


POLLED_JOB = PolledRoute("/v1/jobs/{job_id}", JobTags.job_tag)
