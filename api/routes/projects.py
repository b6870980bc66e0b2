"""Projects, their quotas and their members. Everybody can read them; only admins change them."""

from typing import Annotated, Any

from fastapi import Body, Depends, Path, Response
from pydantic import ValidationError

from api.callers import ADMIN_ONLY, CallerHere, router
from api.costs import TAKES_A_TURN
from api.deps import (
    JSON,
    MERGE_PATCH,
    Cursor,
    IfNoneMatch,
    PageLimit,
    ServicesHere,
    as_json,
    only_json,
    patch_body,
    schema_body,
)
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304
from jobs.model.problems import InvalidSpec, field_problems
from jobs.people import audit, projects
from jobs.people.usage_history import this_month, usage_in
from jobs.views.base import Listed
from jobs.views.projects import NewProject, ProjectChanges, ProjectView

routes = router("projects")

_NEW: dict[str, Any] = {
    "limited": {"summary": "Four slots at once, 100 GPU-hours a month", "value": {
        "name": "vision", "description": "Everything with images", "max_slots": 4, "max_gpu_hours": 100}},
    "closed": {"summary": "Only for its members", "value": {"name": "secret-plans", "is_open": False}},
}  # fmt: skip
_CHANGES: dict[str, Any] = {
    "more": {"summary": "Eight slots, no limit of GPU-hours", "value": {"max_slots": 8, "max_gpu_hours": None}},
    "archive": {"summary": "No new jobs", "value": {"is_archived": True}},
}
_NO_SUCH_PROJECT = problems(s404="No such project")
_NO_SUCH_MEMBER = problems(s404="No such project, or no such user")

ProjectPath = Annotated[
    str, Path(pattern="^[a-z0-9][a-z0-9-]{0,63}$", description="The project's name", examples=["vision"])
]
UserPath = Annotated[
    str, Path(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,128}$", description="The user's name", examples=["ada"])
]


@routes.post(
    "/projects",
    status_code=201,
    responses=problems(s409="A project of this name exists", s415="The body is not JSON"),
    dependencies=[ADMIN_ONLY, Depends(only_json)],
)
def create_project(
    services: ServicesHere,
    caller: CallerHere,
    response: Response,
    new: Annotated[NewProject, Body(openapi_examples=_NEW)],
) -> ProjectView:
    """Create a project. Admins only."""
    values = new.model_dump(exclude={"name"})
    with services.sessions.begin() as session:
        projects.create(session, new.name, **values)
        audit.record(session, caller.actor, "project.created", new.name, **values)
        project = ProjectView.model_validate(projects.state_of(session, new.name))
    response.headers["Location"] = f"/v1/projects/{new.name}"
    return project


@routes.get("/projects")
def list_projects(services: ServicesHere, limit: PageLimit = 50, cursor: Cursor = None) -> Listed[ProjectView]:
    """List projects with their usage, sorted by name."""
    with services.sessions() as session:
        page = projects.list_projects(session, limit=limit, cursor=cursor)
    return Listed[ProjectView].model_validate(page)


@routes.get(
    "/projects/{project}",
    response_model=ProjectView,
    responses=UNCHANGED | _NO_SUCH_PROJECT,
    dependencies=[TAKES_A_TURN],
)
def get_project(project: ProjectPath, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get a project, with its usage."""
    with services.sessions() as session:
        view = ProjectView.model_validate(projects.state_of(session, project))
        if (prices := services.settings.prices) is not None:
            cost = usage_in(session, this_month(session, project), prices).total.cost
            view = view.model_copy(update={"usage": view.usage.model_copy(update={"cost": cost})})
    return answer_or_304(view, if_none_match)


@routes.patch(
    "/projects/{project}",
    response_model=ProjectView,
    responses=_NO_SUCH_PROJECT | problems(s415="The body is not JSON"),
    dependencies=[ADMIN_ONLY],
    openapi_extra=schema_body("ProjectChanges", JSON, MERGE_PATCH, required=False, examples=_CHANGES),
)
def change_project(
    project: ProjectPath, services: ServicesHere, caller: CallerHere, body: Annotated[bytes, Depends(patch_body)]
) -> Response:
    """Change a project. Null removes a limit. Running jobs are not stopped. Admins only.

    The project `default` can be limited, but not closed or archived.
    """
    changes = _changes_of(body).model_dump(exclude_unset=True)
    with services.sessions.begin() as session:
        projects.change(session, project, **changes)
        audit.record(session, caller.actor, "project.changed", project, **changes)
        view = ProjectView.model_validate(projects.state_of(session, project))
    services.hints.dispatch()  # jobs that waited for a quota may be placed now
    return as_json(view)


def _changes_of(body: bytes) -> ProjectChanges:
    try:
        return ProjectChanges.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, ProjectChanges)) from None


@routes.put("/projects/{project}/members/{user_name}", responses=_NO_SUCH_MEMBER, dependencies=[ADMIN_ONLY])
def add_project_member(
    project: ProjectPath, user_name: UserPath, services: ServicesHere, caller: CallerHere
) -> ProjectView:
    """Add a member: they may submit to the project and steer its jobs. Repeating this changes nothing. Admins only."""
    with services.sessions.begin() as session:
        if projects.add_member(session, project, user_name):
            audit.record(session, caller.actor, "project.member_added", project, user=user_name)
        view = ProjectView.model_validate(projects.state_of(session, project))
    services.hints.dispatch()  # their queued jobs may be placed now
    return view


@routes.delete(
    "/projects/{project}/members/{user_name}", status_code=204, responses=_NO_SUCH_PROJECT, dependencies=[ADMIN_ONLY]
)
def remove_project_member(
    project: ProjectPath, user_name: UserPath, services: ServicesHere, caller: CallerHere
) -> None:
    """Remove a member. Repeating this changes nothing. Admins only.

    If the project is closed, their running jobs go on, and their queued jobs wait until they are members again.
    """
    with services.sessions.begin() as session:
        if projects.remove_member(session, project, user_name):
            audit.record(session, caller.actor, "project.member_removed", project, user=user_name)
