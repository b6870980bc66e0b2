"""Why queued jobs wait, beside their rows, and the entity tags that change with it. Called by the routes of jobs."""

import hashlib
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from jobs.queue import Standing, standings
from jobs.states import Status
from jobs.tables import Job


def standings_of(session: Session, jobs: Sequence[Job], *, host_timeout_s: float) -> Mapping[str, Standing]:
    """Where the queued ones among the jobs stand in the queue, by id."""
    queued = [job.id for job in jobs if job.status is Status.QUEUED]
    return standings(session, queued, host_timeout_s=host_timeout_s) if queued else {}


def etag(revision: int, standing: Standing | None = None) -> str:
    """The weak tag of a job's view: what a job waits for changes without its row."""
    if standing is None:
        return f'W/"{revision}"'
    told = hashlib.sha256(f"{standing.position} {standing.reason}".encode()).hexdigest()[:12]
    return f'W/"{revision}-{told}"'
