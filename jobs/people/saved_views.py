"""Saved views of the list of jobs: a person's own, and those of projects. Called by the api, in its transaction.

ViewNotFound    no view has this id
ViewExists      the person or the project has a view of this name
TooManyViews    the person or the project has as many as allowed
"""

from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page
from jobs.db.tables import Project, ProjectMember, SavedView
from jobs.lifecycle.store import new_id
from jobs.people.projects import ProjectNotFound
from jobs.people.rights import NotAllowed
from jobs.views.saved_views import NewViewOfJobs, ViewContent, ViewOfJobsChanges

MOST_VIEWS = 100  # of a person, and of a project


class ViewNotFound(LookupError):
    """No view has this id."""


class ViewExists(ValueError):
    """The person or the project has a view of this name."""


class TooManyViews(ValueError):
    """The person or the project has as many views as allowed."""


def save(session: Session, new: NewViewOfJobs, *, owner: str) -> SavedView:
    """Save a new view. Raises `ViewExists`, `TooManyViews`."""
    whose = owner if new.project is None else f"the project {new.project}"
    siblings = _siblings(owner, new.project)
    _take_turn(session, owner, new.project)
    if session.execute(select(func.count()).where(*siblings)).scalar_one() >= MOST_VIEWS:
        raise TooManyViews(f"{whose} has {MOST_VIEWS} views, the most allowed: delete one first")
    _require_new_name(session, siblings, whose, new.name)
    view = SavedView(id=new_id(), owner=owner, project=new.project, name=new.name, content=_stored(new.content))
    session.add(view)
    session.flush()
    return view


def list_views(
    session: Session, user: str, *, project: str | None = None, limit: int, cursor: str | None
) -> Page[SavedView]:
    """A page of the user's own views and those of projects, by id; or those of one project. Raises `InvalidCursor`."""
    identity = f"views {user!r} {project!r}"
    mine_or_shared = or_(SavedView.project.is_not(None), SavedView.owner == user)
    query = select(SavedView).where(mine_or_shared if project is None else SavedView.project == project)
    if cursor is not None:
        query = query.where(SavedView.id > cursors.decode(session, cursor, by=BY_NAME, of=identity)[0])
    views = session.scalars(query.order_by(SavedView.id).limit(limit + 1)).all()
    return cursors.page_of(session, views, by=BY_NAME, limit=limit, of=identity, position=lambda view: (view.id,))


def get(session: Session, view_id: str, *, to_change: bool = False) -> SavedView:
    """A view. With `to_change` it is locked until the commit. Raises `ViewNotFound`."""
    query = select(SavedView).where(SavedView.id == view_id)
    view = session.scalar(query.with_for_update() if to_change else query)
    if view is None:
        raise ViewNotFound(view_id)
    return view


def change(session: Session, view: SavedView, changes: ViewOfJobsChanges) -> list[str]:
    """Change a view; returns the names of what changed. Raises `ViewExists`."""
    values: dict[str, Any] = changes.values
    if "content" in values:
        values["content"] = _stored(values["content"])
    changed = [name for name, value in values.items() if getattr(view, name) != value]
    if "name" in changed:
        _take_turn(session, view.owner, view.project)
        whose = view.owner if view.project is None else f"the project {view.project}"
        _require_new_name(session, _siblings(view.owner, view.project), whose, values["name"])
    for name in changed:
        setattr(view, name, values[name])
    if changed:
        view.updated_at = session.execute(select(func.now())).scalar_one()
        session.flush()
    return changed


def require_project(session: Session, project: str) -> None:
    """Refuse a project that does not exist. Raises `ProjectNotFound`."""
    if session.get(Project, project) is None:
        raise ProjectNotFound(project)


def require_membership(session: Session, project: str, user: str) -> None:
    """Refuse users who are no members of the project. Raises `NotAllowed`."""
    if session.get(ProjectMember, (project, user)) is None:
        raise NotAllowed(f"only members of the project {project} and admins may save, change or delete its views")


def _siblings(owner: str, project: str | None) -> list[ColumnElement[bool]]:
    """The views with which a view shares the limit and the names."""
    if project is not None:
        return [SavedView.project == project]
    return [SavedView.project.is_(None), SavedView.owner == owner]


def _take_turn(session: Session, owner: str, project: str | None) -> None:
    """Wait for other requests about the same views, so that what is counted stays right until the commit."""
    key = f"views\n{owner}" if project is None else f"views of\n{project}"
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))


def _require_new_name(session: Session, siblings: list[ColumnElement[bool]], whose: str, name: str) -> None:
    if session.scalar(select(SavedView.id).where(*siblings, SavedView.name == name)) is not None:
        raise ViewExists(f"{whose} has a view with the name {name}: change it, or choose another name")


def _stored(content: ViewContent) -> dict[str, Any]:
    return content.model_dump(mode="json", exclude_defaults=True)
