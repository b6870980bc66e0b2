"""Projects: groups of jobs, with quotas and members. Called by the api.

`jobs.people.project_admission` decides whether a job is accepted. `jobs.scheduling.quotas` computes a project's usage.
Every function works in the caller's transaction; the caller commits.

    ProjectNotFound     there is no project of this name
    ProjectExists       there is already a project of this name
    DefaultProject      the default project cannot be closed or archived; it can be limited
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page
from jobs.db.tables import Job, Project, ProjectMember, User
from jobs.model.spec import DEFAULT_PROJECT, IdleSpec
from jobs.model.states import Status
from jobs.people.rights import UserNotFound
from jobs.scheduling.quotas import quotas_of

_LIST = "projects"  # what its cursors belong to


class ProjectNotFound(LookupError):
    """There is no project of this name."""


class ProjectExists(ValueError):
    """There is already a project of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the project {name} exists already")


class DefaultProject(ValueError):
    """The default project cannot be closed or archived. `field` is the field of the request."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(
            f"the project {DEFAULT_PROJECT} is open to everybody: it can be limited, but not closed or archived"
        )


@dataclass(frozen=True)
class Usage:
    """The present usage of a project's quotas."""

    slots: int
    queued: int
    gpu_hours: float
    renews_at: datetime
    storage_gb: float


@dataclass(frozen=True)
class ProjectState:
    """A project, its members and its usage."""

    name: str
    description: str
    is_open: bool
    max_slots: int | None
    max_queued: int | None
    max_gpu_hours: float | None
    max_storage_gb: float | None
    max_priority: int | None
    share: float
    idle: dict[str, Any] | None  # an `IdleSpec`
    created_at: datetime
    archived_at: datetime | None
    revision: int
    members: Sequence[str]  # by name
    usage: Usage


def create(session: Session, name: str, **values: Any) -> None:
    """Create a project. Raises `ProjectExists`."""
    created = insert(Project).values(name=name, **values).on_conflict_do_nothing().returning(Project.name)
    if session.scalar(created) is None:
        raise ProjectExists(name)


def change(session: Session, name: str, *, is_archived: bool | None = None, **values: Any) -> None:
    """Change a project. Running jobs are not stopped. Raises `ProjectNotFound`, `DefaultProject`.

    `idle` may have some of its fields: the others stay as they are.
    """
    if name == DEFAULT_PROJECT and (is_archived or not values.get("is_open", True)):
        raise DefaultProject("is_archived" if is_archived else "is_open")
    if is_archived is not None:
        values["archived_at"] = func.coalesce(Project.archived_at, func.now()) if is_archived else None
    if values.get("idle") is not None:
        before = func.coalesce(Project.idle, cast(IdleSpec().model_dump(), JSONB))
        values["idle"] = before.op("||")(cast(values["idle"], JSONB))
    _touch(session, name, **values)


def add_member(session: Session, name: str, user: str) -> bool:
    """Add a member, who may submit to the project and steer its jobs; returns whether they are new.

    Raises `ProjectNotFound`, `UserNotFound`.
    """
    _require(session, name)
    if session.get(User, user) is None:
        raise UserNotFound(user)
    added = insert(ProjectMember).values(project=name, user_name=user).on_conflict_do_nothing()
    is_new = session.scalar(added.returning(ProjectMember.user_name)) is not None
    if is_new:
        _touch(session, name)
    return is_new


def remove_member(session: Session, name: str, user: str) -> bool:
    """Remove a member; returns whether they were one. Raises `ProjectNotFound`."""
    _require(session, name)
    removal = delete(ProjectMember).where(ProjectMember.project == name, ProjectMember.user_name == user)
    was_member = session.scalar(removal.returning(ProjectMember.user_name)) is not None
    if was_member:
        _touch(session, name)
    return was_member


def state_of(session: Session, name: str) -> ProjectState:
    """A project as it is now. Raises `ProjectNotFound`."""
    project = session.get(Project, name, populate_existing=True)
    if project is None:
        raise ProjectNotFound(name)
    return _states(session, [project])[0]


def list_projects(session: Session, *, limit: int = 50, cursor: str | None = None) -> Page[ProjectState]:
    """A page of all projects, by name. Raises `InvalidCursor`."""
    query = select(Project).order_by(Project.name)
    if cursor is not None:
        (after,) = cursors.decode(session, cursor, by=BY_NAME, of=_LIST)
        query = query.where(Project.name > after)
    rows = session.scalars(query.limit(limit + 1)).all()
    page = cursors.page_of(session, rows, by=BY_NAME, limit=limit, of=_LIST, position=lambda project: (project.name,))
    return Page(_states(session, page.items), page.next_cursor)


def states(session: Session) -> list[ProjectState]:
    """All projects that are not archived, by name."""
    query = select(Project).where(Project.archived_at.is_(None)).order_by(Project.name)
    return _states(session, session.scalars(query).all())


def _states(session: Session, projects: Sequence[Project]) -> list[ProjectState]:
    names = [project.name for project in projects]
    quotas = quotas_of(session, names)
    waiting = select(Job.project, func.count()).where(Job.status == Status.QUEUED, Job.project.in_(names))
    queued = {name: count for name, count in session.execute(waiting.group_by(Job.project))}  # noqa: C416 - rows
    members: dict[str, list[str]] = {}
    belonging = select(ProjectMember.project, ProjectMember.user_name).where(ProjectMember.project.in_(names))
    for name, user in session.execute(belonging.order_by(ProjectMember.user_name)):
        members.setdefault(name, []).append(user)
    return [
        ProjectState(
            name=project.name,
            description=project.description,
            is_open=project.is_open,
            max_slots=project.max_slots,
            max_queued=project.max_queued,
            max_gpu_hours=project.max_gpu_hours,
            max_storage_gb=project.max_storage_gb,
            max_priority=project.max_priority,
            share=project.share,
            idle=project.idle,
            created_at=project.created_at,
            archived_at=project.archived_at,
            revision=project.revision,
            members=members.get(project.name, []),
            usage=Usage(
                quota.slots,
                queued.get(project.name, 0),
                round(quota.gpu_hours, 4),
                quota.renews_at,
                round(quota.storage_gb, 4),
            ),
        )
        for project in projects
        for quota in [quotas[project.name]]
    ]


def _require(session: Session, name: str) -> None:
    if session.scalar(select(Project.name).where(Project.name == name)) is None:
        raise ProjectNotFound(name)


def _touch(session: Session, name: str, **values: Any) -> None:
    changed = update(Project).where(Project.name == name).values(revision=Project.revision + 1, **values)
    if session.scalar(changed.returning(Project.name)) is None:
        raise ProjectNotFound(name)
