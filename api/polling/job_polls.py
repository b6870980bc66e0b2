"""What polls of jobs ask: whether a job or a page of the list changed, and why queued jobs wait. Called by the routes.

A dashboard asks this several times a second for each of its readers, so polls that come together share their reads.
"""

import asyncio
from collections.abc import Mapping, Sequence

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api.polling.entity_tags import job_tag, tag_of
from api.polling.shared_reads import Together
from jobs.db.engine import each_statement_alone
from jobs.db.tables import Job
from jobs.lifecycle.listing import JobRevision, ListQuery, revisions, revisions_of
from jobs.lifecycle.store import JobNotFound
from jobs.model.states import Status
from jobs.scheduling.queue import Standing, standings


class Polls:
    """The entity tags of jobs and of pages of their list, as they are now. One a process."""

    def __init__(self, engine: Engine, *, host_timeout_s: float) -> None:
        self._engine = each_statement_alone(engine)
        self._host_timeout_s = host_timeout_s
        self._jobs = Together(self._read_jobs)
        self._pages = Together(self._read_pages)
        self._standings = Together(self._read_standings)

    async def job_tag(self, job_id: str) -> str:
        """The tag of a job's view. Raises `JobNotFound`."""
        seen = await self._jobs(job_id)
        if seen is None:
            raise JobNotFound(job_id)
        return job_tag(seen.revision, await self._standings(job_id) if seen.status is Status.QUEUED else None)

    async def page_tag(self, wanted: ListQuery) -> str:
        """The tag of a page of the list. Raises `jobs.db.cursors.InvalidCursor`."""
        wanted.position()  # one that is wrong must not spoil the read of others
        seen = await self._pages(wanted) or ()
        page = seen[: wanted.limit]
        queued = [job.id for job in page if job.status is Status.QUEUED]
        found = await asyncio.gather(*map(self._standings, queued))
        waiting = {job_id: standing for job_id, standing in zip(queued, found, strict=True) if standing is not None}
        return page_tag(wanted, page, waiting, more=len(seen) > wanted.limit)

    def _read_jobs(self, job_ids: Sequence[str]) -> Mapping[str, JobRevision]:
        with self._engine.connect() as connection:
            return {job.id: job for job in revisions_of(connection, job_ids)}

    def _read_pages(self, pages: Sequence[ListQuery]) -> Mapping[ListQuery, Sequence[JobRevision]]:
        with Session(self._engine) as session:
            return {wanted: revisions(session, wanted) for wanted in pages}

    def _read_standings(self, job_ids: Sequence[str]) -> Mapping[str, Standing]:
        with Session(self._engine) as session:
            return standings(session, job_ids, host_timeout_s=self._host_timeout_s)


def standings_of(session: Session, jobs: Sequence[Job], *, host_timeout_s: float) -> Mapping[str, Standing]:
    """Where the queued ones among the jobs stand in the queue, by id."""
    queued = [job.id for job in jobs if job.status is Status.QUEUED]
    return standings(session, queued, host_timeout_s=host_timeout_s) if queued else {}


def page_tag(
    wanted: ListQuery, page: Sequence[Job | JobRevision], waiting: Mapping[str, Standing], *, more: bool
) -> str:
    """The tag of a page that shows these jobs, and where the queued ones stand."""
    told = [(job.id, job.revision, waiting.get(job.id)) for job in page]
    return tag_of(wanted.identity, wanted.limit, wanted.cursor, told, more)
