"""The list of jobs: filtered, in a total order, page by page. Called by the api.

Pages go by key (creation time and id), so that page 1,000 costs what page 1 costs and no job is seen twice.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, select, tuple_
from sqlalchemy.orm import Session

from jobs import cursors
from jobs.cursors import Page
from jobs.states import Status
from jobs.store import JobNotFound
from jobs.tables import Job

Order = Literal["-created_at", "created_at"]


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are wanted: those that match every part that is given."""

    statuses: frozenset[Status] = frozenset()  # any of these
    labels: tuple[tuple[str, str], ...] = ()  # all of these
    name: str | None = None
    owner: str | None = None
    paused: bool | None = None
    study: str | None = None  # its id

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as SQL."""
        found: list[ColumnElement[bool]] = [Job.labels.contains({key: value}) for key, value in self.labels]
        if self.statuses:
            found.append(Job.status.in_(sorted(self.statuses)))
        if self.name is not None:
            found.append(Job.name == self.name)
        if self.owner is not None:
            found.append(Job.owner == self.owner)
        if self.paused is not None:
            found.append(Job.paused_at.is_not(None) if self.paused else Job.paused_at.is_(None))
        if self.study is not None:
            found.append(Job.study_id == self.study)
        return found


def list_jobs(
    session: Session, wanted: JobFilter, *, order: Order = "-created_at", limit: int = 50, cursor: str | None = None
) -> Page[Job]:
    """A page of at most `limit` jobs. Raises `InvalidCursor`."""
    newest_first = order == "-created_at"
    identity = _identity(wanted, order)
    key = tuple_(Job.created_at, Job.id)
    query = select(Job).where(*wanted.conditions())
    if cursor is not None:
        created_at, job_id = cursors.decode(cursor, of=identity)
        after = tuple_(datetime.fromisoformat(str(created_at)), str(job_id))
        query = query.where(key < after if newest_first else key > after)
    columns = (Job.created_at, Job.id)
    query = query.order_by(*(column.desc() if newest_first else column.asc() for column in columns))
    found = session.scalars(query.limit(limit + 1)).all()  # one more, to know whether there is a next page
    if len(found) <= limit:
        return Page(found, None)
    last = found[limit - 1]
    return Page(found[:limit], cursors.encode((last.created_at.isoformat(), last.id), of=identity))


def revision_of(session: Session, job_id: str) -> tuple[int, Status]:
    """The revision and the status of a job, without reading the rest of it. Raises `JobNotFound`."""
    row = session.execute(select(Job.revision, Job.status).where(Job.id == job_id)).one_or_none()
    if row is None:
        raise JobNotFound(job_id)
    return row.revision, row.status


def _identity(wanted: JobFilter, order: Order) -> str:
    filters = [sorted(wanted.statuses), sorted(wanted.labels), wanted.name, wanted.owner, wanted.paused, wanted.study]
    return json.dumps(["jobs", order, *filters])
