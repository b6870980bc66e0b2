"""The usage of the past: GPU-hours, jobs and cost by day or month. Everybody can read it."""

import csv
import io
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BeforeValidator
from sqlalchemy.orm import Session

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import SafeText, ServicesHere, as_json
from api.problems import invalid
from api.similar_names import proposal
from jobs.db.tables import Project, User
from jobs.model.csv_cells import csv_cell
from jobs.model.problems import FieldProblem
from jobs.people.projects import ProjectNotFound
from jobs.people.usage_history import UsageQuery, owners, today, usage_in
from jobs.suggestions import meant
from jobs.views.usage import MOST_DAYS, MOST_KEYS, MOST_MONTHS, Period, UsageKey, UsageReport

routes = router("projects")

_DEFAULT_DAYS, _DEFAULT_MONTHS = 30, 12
_FORMS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The usage in the requested format", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


def _written_out(value: Any) -> Any:
    """Refuse a number or a time in place of a date."""
    if isinstance(value, str) and not (len(value) == len("2030-01-31") and value[4::3] == "--"):
        raise ValueError("must be a date, such as 2030-01-31")
    return value


Day = Annotated[date, BeforeValidator(_written_out)]
From = Annotated[
    Day | None,
    Query(
        alias="from",
        description=f"The first day, in UTC. By default the answer has {_DEFAULT_DAYS} days or {_DEFAULT_MONTHS} "
        f"months. It may have {MOST_DAYS} days or {MOST_MONTHS} months",
    ),
]
Until = Annotated[Day | None, Query(description="The last day, in UTC. It is included. By default today")]
By = Annotated[
    list[UsageKey],
    Query(
        description=f"What to add up by: {', '.join(UsageKey)}. Repeat it, for up to {MOST_KEYS}. `device` is the "
        "model of a GPU, or `cpu`",
        min_length=1,
        max_length=MOST_KEYS,
        examples=[["project", "user"]],
    ),
]


@routes.get("/usage", response_model=UsageReport, responses=_FORMS, dependencies=[TAKES_A_TURN])
def get_usage(
    services: ServicesHere,
    from_: From = None,
    until: Until = None,
    by: By = [UsageKey.PROJECT],  # noqa: B006
    period: Annotated[Period, Query(description="What a row adds up: days or months, in UTC")] = Period.MONTH,
    project: Annotated[SafeText | None, Query(description="Only what was spent in this project")] = None,
    user: Annotated[SafeText | None, Query(description="Only jobs of this user")] = None,
    form: Annotated[Literal["json", "csv"], Query(alias="format", description="`json`, or a table (`csv`)")] = "json",
) -> Response:
    """Get the usage of the past: GPU-hours, jobs and cost, by day or month and by project, user, host or device.

    An attempt that runs over midnight counts in each day with its part, a running one up to now. Deleted jobs count as
    before, and jobs that moved count in the project in which they ran. Imported runs do not count.
    """
    with services.sessions() as session:
        last_day = until or today(session)
        first_day = from_ or _first_day(last_day, period)
        query = UsageQuery(first_day, last_day, period, list(dict.fromkeys(by)), project, user)
        if problems := [*_problems_of_range(query), *_problems_of_names(session, query)]:
            raise invalid(problems)
        report = usage_in(session, query, services.settings.prices)
    if form == "json":
        return as_json(report)
    headers = {"Content-Disposition": f'inline; filename="usage-{first_day}-{last_day}.csv"'}
    return Response(_comma_separated(report), headers=headers, media_type="text/csv")


def _first_day(last_day: date, period: Period) -> date:
    """The first day of the default range."""
    if period is Period.DAY:
        return date.fromordinal(max(1, last_day.toordinal() - _DEFAULT_DAYS + 1))
    year, month = divmod(max(_month_number(date.min), _month_number(last_day) - _DEFAULT_MONTHS + 1), 12)
    return date(year, month + 1, 1)


def _month_number(day: date) -> int:
    return 12 * day.year + day.month - 1


def _problems_of_range(query: UsageQuery) -> Iterator[FieldProblem]:
    """The problem with a range that has too many days or months, or none."""
    first_day, last_day = query.first_day, query.last_day
    days = (last_day - first_day).days + 1
    months = _month_number(last_day) - _month_number(first_day) + 1
    if days < 1:
        yield FieldProblem("from", f"must not be after until ({last_day})", str(first_day))
    elif query.period is Period.DAY and days > MOST_DAYS:
        why = f"{first_day} to {last_day} are {days:,} days; at most {MOST_DAYS}, or ask for months (period=month)"
        yield FieldProblem("from", why, str(first_day))
    elif months > MOST_MONTHS:
        why = f"{first_day} to {last_day} are {months:,} months; at most {MOST_MONTHS}"
        yield FieldProblem("from", why, str(first_day))


def _problems_of_names(session: Session, query: UsageQuery) -> Iterator[FieldProblem]:
    """Names of a project or user that there is not: an empty answer would say that they used nothing."""
    if query.project is not None and session.get(Project, query.project) is None:
        why = "there is no such project" + proposal(session, ProjectNotFound(query.project))
        yield FieldProblem("project", why, query.project)
    if query.user is not None and session.get(User, query.user) is None:
        why = "there is no such user" + meant(query.user, owners(session))
        yield FieldProblem("user", why, query.user)


def _comma_separated(report: UsageReport) -> str:
    """A line for each row. Spreadsheets add up the total themselves."""
    columns = ["period", *report.by, "gpu_hours", "jobs", "cost"]
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(columns)
    for row in report.items:
        writer.writerow([csv_cell(getattr(row, column)) for column in columns])
    return table.getvalue()
