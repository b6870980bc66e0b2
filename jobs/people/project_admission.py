"""Whether a project takes a job: asked by the api at submission, before anything is stored.

QueueFull           the project has as many jobs in the queue as it may have
ProjectArchived     the project takes no new jobs
"""

from dataclasses import dataclass

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Project, ProjectMember
from jobs.model.spec import FieldProblem, Spec
from jobs.model.states import Status
from jobs.people.rights import NotAllowed

_MOST_NAMED = 20  # projects that a message lists


class QueueFull(ValueError):
    """The project may not have so many jobs in the queue; `max_queued` is how many it may."""

    def __init__(self, project: str, *, queued: int, asked: int, max_queued: int) -> None:
        more = "" if asked == 1 else f", and this is for {asked} more"
        super().__init__(f"the project {project} has {queued} of {max_queued} jobs in the queue{more}")


class ProjectArchived(ValueError):
    """The project takes no new jobs."""

    def __init__(self, project: str) -> None:
        super().__init__(f"the project {project} is archived: it takes no new jobs")


@dataclass(frozen=True)
class Applicant:
    """Who submits. An admin may submit to every project."""

    user: str
    is_admin: bool = False


def project_of(session: Session, name: str) -> Project | None:
    """The project of this name."""
    return session.get(Project, name)


def project_problems(session: Session, project: Project | None, spec: Spec, who: Applicant) -> list[FieldProblem]:
    """What is wrong with the project that a spec names, and with asking it for so many slots."""
    if project is None or project.archived_at is not None:
        why = "there is no such project" if project is None else "this project is archived"
        return [FieldProblem("project", f"{why}; there are: {_named(session, who)}", spec.project)]
    if project.max_slots is not None and spec.gpus > project.max_slots:
        why = f"more than the project {project.name} may have at once: {project.max_slots}"
        return [FieldProblem("gpus", why, str(spec.gpus))]
    return []


def admit(session: Session, name: str, who: Applicant, *, jobs: int) -> None:
    """Take so many jobs into the queue of a project. Raises `NotAllowed`, `QueueFull`, `ProjectArchived`.

    Until the commit nobody else is admitted to a project whose queue is limited.
    """
    is_open = session.scalar(select(Project.is_open).where(Project.name == name))
    if not (is_open or who.is_admin or session.get(ProjectMember, (name, who.user))):
        raise NotAllowed(f"the project {name} takes jobs of its members and of admins, and you are neither")
    require_room(session, name, jobs=jobs)


def require_room(session: Session, name: str, *, jobs: int) -> None:
    """Refuse so many new jobs where the project's queue has no room for them. Raises `QueueFull`, `ProjectArchived`."""
    project = session.execute(select(Project.max_queued, Project.archived_at).where(Project.name == name)).one()
    if project.archived_at is not None:
        raise ProjectArchived(name)
    if project.max_queued is None:
        return
    # Those who come together take turns here; a job's reference to its project waits for none of them.
    locked = select(Project.max_queued).where(Project.name == name).with_for_update(key_share=True)
    max_queued = session.scalar(locked)
    queued = session.scalar(select(func.count()).where(Job.project == name, Job.status == Status.QUEUED)) or 0
    if max_queued is not None and queued + jobs > max_queued:
        raise QueueFull(name, queued=queued, asked=jobs, max_queued=max_queued)


def _named(session: Session, who: Applicant) -> str:
    """The projects that somebody may submit to."""
    query = select(Project.name).where(Project.archived_at.is_(None)).order_by(Project.name)
    if not who.is_admin:
        is_member = exists().where(ProjectMember.project == Project.name, ProjectMember.user_name == who.user)
        query = query.where(or_(Project.is_open, is_member))
    names = session.scalars(query.limit(_MOST_NAMED + 1)).all()
    return ", ".join([*names[:_MOST_NAMED], *(["..."] if len(names) > _MOST_NAMED else [])])
