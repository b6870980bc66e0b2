"""Decides whether a project accepts a job. Called by the api before it stores, resumes or moves anything.

QueueFull           the project has as many jobs in the queue as its quota allows
StorageFull         the files of the jobs would bring the project above its `max_storage_gb`
ProjectArchived     the project takes no new jobs
"""

from dataclasses import dataclass

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Project, ProjectMember
from jobs.lifecycle import rights_now
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import DEFAULT_PRIORITY, Spec
from jobs.model.states import Status
from jobs.people.rights import NotAllowed
from jobs.scheduling.quotas import quotas_of
from jobs.suggestions import meant

_MOST_NAMED = 20  # projects that a message lists
_MOST_COMPARED = 1000  # with a misspelt name


class QueueFull(ValueError):
    """These jobs would bring the project above its `max_queued` in the queue."""

    def __init__(self, project: str, *, queued: int, new_jobs: int, max_queued: int) -> None:
        more = "" if new_jobs == 1 else f"; this would add {new_jobs}"
        super().__init__(f"the project {project} has {queued} of {max_queued} jobs in the queue{more}")


class StorageFull(ValueError):
    """These files would bring the project above its `max_storage_gb`."""

    def __init__(self, project: str, *, kept_gb: float, new_gb: float, max_gb: float) -> None:
        kept = f"the project {project} keeps {kept_gb:.4g} of {max_gb:g} GB"
        super().__init__(f"{kept}; this would add {new_gb:.4g}: remove files of it or of other jobs first")


class ProjectArchived(ValueError):
    """The project takes no new jobs."""

    def __init__(self, project: str) -> None:
        super().__init__(f"the project {project} is archived: it takes no new jobs")


@dataclass(frozen=True)
class Applicant:
    """The user who submits. An admin may submit to every project."""

    user: str
    is_admin: bool = False


def project_of(session: Session, name: str) -> Project | None:
    """The project of this name."""
    return session.get(Project, name)


def project_problems(session: Session, project: Project | None, spec: Spec, applicant: Applicant) -> list[FieldProblem]:
    """Problems with the project that a spec names, with the number of slots, and with the priority."""
    if problems := missing_project(session, project, spec.project, applicant):
        return problems
    if project is not None and project.max_slots is not None and spec.gpus > project.max_slots:
        slots = "slot" if project.max_slots == 1 else "slots"
        message = f"the project {project.name} may have {project.max_slots} {slots} at once"
        problems.append(FieldProblem("gpus", message, str(spec.gpus)))
    if project is not None:
        problems += submission_ceiling_problem(project, spec.priority, applicant)
    return problems


def submission_ceiling_problem(project: Project, priority: int, applicant: Applicant) -> list[FieldProblem]:
    """The problem of a new job's priority above the ceiling of its project, if that has one."""
    return [] if project.max_priority is None else ceiling_problem(project, priority, applicant)


def ceiling_problem(project: Project, priority: int, applicant: Applicant, *, present: int = 0) -> list[FieldProblem]:
    """The problem of a priority above the ceiling of its project. `present` is what the job has: it may keep that.

    A project without a ceiling lets nobody but admins raise a job above the default.
    """
    ceiling = DEFAULT_PRIORITY if project.max_priority is None else project.max_priority
    if applicant.is_admin or priority <= max(ceiling, present):
        return []
    why = ", because its max_priority is not set" if project.max_priority is None else ""
    message = f"in the project {project.name} only admins may go above {ceiling}{why}"
    return [FieldProblem("priority", message, str(priority))]


def missing_project(session: Session, project: Project | None, name: str, applicant: Applicant) -> list[FieldProblem]:
    """The problem with a project that does not exist, or is archived."""
    if project is not None and project.archived_at is None:
        return []
    problem = "there is no such project" if project is None else "this project is archived"
    names = _open_projects(session, applicant)
    named = ", ".join([*names[:_MOST_NAMED], *(["..."] if len(names) > _MOST_NAMED else [])])
    return [FieldProblem("project", f"{problem}; there are: {named}{meant(name, names)}", name)]


def admit(session: Session, name: str, applicant: Applicant, *, jobs: int) -> None:
    """Admit this number of jobs to the queue of a project. Raises `NotAllowed`, `QueueFull`, `ProjectArchived`.

    If the project's queue is limited, no other jobs are admitted to it until the commit.
    """
    require_submitter(session, name, applicant)
    require_room(session, name, jobs=jobs)


def require_submitter(session: Session, name: str, applicant: Applicant) -> None:
    """Refuse users who may not submit to the project. Raises `NotAllowed`."""
    is_open = session.scalar(select(Project.is_open).where(Project.name == name))
    if not (is_open or applicant.is_admin or session.get(ProjectMember, (name, applicant.user))):
        raise NotAllowed(f"the project {name} takes jobs only from its members and from admins")


def require_resumer(session: Session, name: str, applicant: Applicant, *, subject: str, owner: str) -> None:
    """Refuse to resume a job or a study (`subject`) of the project. Raises `NotAllowed`.

    To resume is to submit again, in the name of the owner. So both must be allowed to submit now.
    """
    require_submitter(session, name, applicant)
    obstacle = rights_now.why_not_train(session, owner=owner, project=name)
    if obstacle is not None:
        raise NotAllowed(f"{subject} cannot be resumed: {obstacle}; submit it again as your own")


def require_room(session: Session, name: str, *, jobs: int) -> None:
    """Refuse new jobs if the project's queue has no room for all of them. Raises `QueueFull`, `ProjectArchived`."""
    project = session.execute(select(Project.max_queued, Project.archived_at).where(Project.name == name)).one()
    if project.archived_at is not None:
        raise ProjectArchived(name)
    if project.max_queued is None:
        return
    # Concurrent submissions take turns here. A job's foreign key to its project does not wait for this lock.
    locked = select(Project.max_queued).where(Project.name == name).with_for_update(key_share=True)
    max_queued = session.scalar(locked)
    queued = session.scalar(select(func.count()).where(Job.project == name, Job.status == Status.QUEUED)) or 0
    if max_queued is not None and queued + jobs > max_queued:
        raise QueueFull(name, queued=queued, new_jobs=jobs, max_queued=max_queued)


def admit_ended(session: Session, name: str, applicant: Applicant, *, stored_bytes: int) -> None:
    """Admit jobs that have ended, with their files. Raises `NotAllowed`, `InvalidSpec`, `StorageFull`.

    If the project's storage is limited, nothing else is moved to it until the commit.
    """
    if problems := missing_project(session, project_of(session, name), name, applicant):
        raise InvalidSpec(problems)
    require_submitter(session, name, applicant)
    locked = select(Project.max_storage_gb).where(Project.name == name).with_for_update(key_share=True)
    max_gb = session.scalar(locked)
    if max_gb is not None and stored_bytes:
        kept_gb, new_gb = quotas_of(session, [name])[name].storage_gb, stored_bytes / 1e9
        if kept_gb + new_gb > max_gb:
            raise StorageFull(name, kept_gb=kept_gb, new_gb=new_gb, max_gb=max_gb)


def _open_projects(session: Session, applicant: Applicant) -> list[str]:
    """The projects that the applicant may submit to."""
    query = select(Project.name).where(Project.archived_at.is_(None)).order_by(Project.name)
    if not applicant.is_admin:
        is_member = exists().where(ProjectMember.project == Project.name, ProjectMember.user_name == applicant.user)
        query = query.where(or_(Project.is_open, is_member))
    return list(session.scalars(query.limit(_MOST_COMPARED)))
