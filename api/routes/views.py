"""Saved views of the list of jobs. Everybody reads them; they are changed by their owners, or by a project's members.

A view of a project is there for its members, also after the person who saved it has left: then only members change it.
"""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Response
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import Cursor, PageLimit, SafeText, ServicesHere, as_json, only_json
from api.openapi import problems
from api.problems import invalid
from api.routes.lookups import Sort, check_fields, wheres_of
from jobs.db.tables import SavedView
from jobs.model.problems import FieldProblem
from jobs.model.scopes import Scope
from jobs.people import audit, saved_views
from jobs.people.projects import ProjectNotFound
from jobs.views.base import Listed
from jobs.views.saved_views import NewViewOfJobs, ViewContent, ViewOfJobs, ViewOfJobsChanges

routes = router("views")

ViewId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The view's id", examples=["4f0w8q2m6t9s"])]

_NEW = {
    "own": {"value": {"name": "running, mine", "content": {"filter": {"status": ["running"], "owner": "ada"}}}},
    "of a project": {
        "summary": "The best learning rates, for the members of a project",
        "value": {
            "name": "rates",
            "project": "vision",
            "content": {
                "filter": {"project": "vision", "where": ["label.team=vision", "spec.batch_size>=64 or starred"]},
                "sort": "-metrics.val_accuracy",
                "columns": ["name", "spec.optimizer.name", "rate", "metrics.val_accuracy"],
                "pinned": ["name"],
                "group": ["spec.optimizer.name"],
            },
        },
    },
}
_CHANGES = {"another name": {"value": {"name": "running"}}}
_NO_SUCH_VIEW = problems(s404="No such view")
_BODY = problems(s413="The body is too large", s415="The body is not JSON")
_SORT: TypeAdapter[str] = TypeAdapter(Sort)


@routes.post(
    "/views",
    status_code=201,
    response_model=ViewOfJobs,
    responses=problems(s409="There is a view of this name, or there are too many") | _BODY,
    dependencies=[Depends(only_json)],
)
def create_view(
    services: ServicesHere, caller: CallerHere, new: Annotated[NewViewOfJobs, Body(openapi_examples=_NEW)]
) -> Response:
    """Save a view of the list of jobs: its filters, order, columns and group. It is your own, or a project's."""
    _check(new.content)
    with services.sessions.begin() as session:
        if new.project is not None:
            _require_membership(session, caller, new.project)
        view = saved_views.save(session, new, owner=caller.user)
        audit.record(session, caller.actor, "view.created", view.id, name=view.name, project=view.project)
        answer = ViewOfJobs.model_validate(view)
    return as_json(answer, 201, {"Location": f"/v1/views/{answer.id}"})


@routes.get("/views")
def list_views(
    services: ServicesHere,
    caller: CallerHere,
    project: Annotated[SafeText | None, Query(description="Only views of this project")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[ViewOfJobs]:
    """List your own views and those of all projects. Views that others saved for themselves open only by their ids."""
    with services.sessions() as session:
        page = saved_views.list_views(session, caller.user, project=project, limit=limit, cursor=cursor)
        items = [ViewOfJobs.model_validate(view) for view in page.items]
    return Listed(items=items, next_cursor=page.next_cursor)


@routes.get("/views/{view_id}", responses=_NO_SUCH_VIEW)
def get_view(view_id: ViewId, services: ServicesHere) -> ViewOfJobs:
    """Get a view, also one of somebody else: a link to it opens it."""
    with services.sessions() as session:
        return ViewOfJobs.model_validate(saved_views.get(session, view_id))


@routes.patch(
    "/views/{view_id}",
    responses=_NO_SUCH_VIEW | problems(s409="There is a view of this name") | _BODY,
    dependencies=[Depends(only_json)],
)
def change_view(
    view_id: ViewId,
    services: ServicesHere,
    caller: CallerHere,
    changes: Annotated[ViewOfJobsChanges, Body(openapi_examples=_CHANGES)],
) -> ViewOfJobs:
    """Rename a view, or replace its content. Repeating it changes nothing."""
    if changes.content is not None:
        _check(changes.content)
    with services.sessions.begin() as session:
        view = _steered(session, caller, view_id)
        changed = saved_views.change(session, view, changes)
        if changed:
            audit.record(session, caller.actor, "view.changed", view_id, name=view.name, changed=changed)
        return ViewOfJobs.model_validate(view)


@routes.delete("/views/{view_id}", status_code=204, responses=_NO_SUCH_VIEW)
def delete_view(view_id: ViewId, services: ServicesHere, caller: CallerHere) -> None:
    """Delete a view."""
    with services.sessions.begin() as session:
        view = _steered(session, caller, view_id)
        session.delete(view)
        audit.record(session, caller.actor, "view.deleted", view_id, name=view.name, project=view.project)


def _steered(session: Session, caller: Caller, view_id: str) -> SavedView:
    """A view that the caller may change and delete. Raises `ViewNotFound`, `NotAllowed`, `Forbidden`."""
    view = saved_views.get(session, view_id, to_change=True)
    if view.project is None:
        caller.require_owner(f"the view {view_id}", view.owner)
    else:
        _require_membership(session, caller, view.project)
    return view


def _require_membership(session: Session, caller: Caller, project: str) -> None:
    """Refuse all but a project's members, and admins. Raises `NotAllowed`, `Invalid`."""
    try:
        saved_views.require_project(session, project)
    except ProjectNotFound:
        raise invalid([FieldProblem("project", "there is no such project", project)]) from None
    if not caller.may(Scope.ADMIN):
        saved_views.require_membership(session, project, caller.user)


def _check(content: ViewContent) -> None:
    """Refuse conditions, fields and an order that the list does not have. Raises `Invalid`."""
    wheres_of(content.filter.where, "content.filter.where")
    check_fields("content.group", content.group)
    try:
        _SORT.validate_python(content.sort)
    except ValidationError as error:
        message = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise invalid([FieldProblem("content.sort", message, content.sort[:80])]) from None
