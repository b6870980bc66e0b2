"""What was probably meant by the id or the name of a thing that does not exist. Called by `api.problem_answers`.

It proposes only what everybody with a token may read. So there is nothing here about webhooks, tokens, uploads and
code, which not all may see. The routes that do not find a user are for admins alone.
"""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from jobs.data.versions import DatasetNotFound, labels_of_all
from jobs.db.tables import Host, Job, Project, Study, User
from jobs.insight.studies.store import StudyNotFound
from jobs.lifecycle.store import JobNotFound
from jobs.people.projects import ProjectNotFound
from jobs.people.rights import UserNotFound
from jobs.scheduling.hosts import HostNotFound
from jobs.suggestions import meant

_MOST = 1000  # names that are compared
_ID_CUTOFF = 0.8  # ids are drawn at random: less in common means nothing
_IDS: dict[type[Exception], Select[Any]] = {
    JobNotFound: select(Job.id).order_by(Job.created_at.desc(), Job.id.desc()),
    StudyNotFound: select(Study.id).order_by(Study.created_at.desc(), Study.id.desc()),
}
_NAMES: dict[type[Exception], Select[Any]] = {
    HostNotFound: select(Host.name).order_by(Host.name),
    ProjectNotFound: select(Project.name).where(Project.archived_at.is_(None)).order_by(Project.name),
    UserNotFound: select(User.name).order_by(User.name),
}
LOOKED_UP = (*_IDS, *_NAMES, DatasetNotFound)


def proposal(session: Session, error: Exception) -> str:
    """The end of a sentence that proposes the similar name; empty if there is none. The error's text is what came."""
    given, kind = str(error), type(error)
    if kind in _IDS:
        return meant(given, session.scalars(_IDS[kind].limit(_MOST)), cutoff=_ID_CUTOFF)
    if kind is DatasetNotFound:
        return meant(given, labels_of_all(session, most=_MOST, with_versions="@" in given))
    return meant(given, session.scalars(_NAMES[kind].limit(_MOST)))
