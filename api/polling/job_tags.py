"""The entity tags of jobs and of pages of their list, as they are now. Called by the routes that are polled.

Dashboards ask for them several times a second for each of their readers, so polls that come together share their reads.
"""

import asyncio
from collections.abc import Mapping, Sequence

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api.polling.entity_tags import job_tag, tag_of
from api.polling.shared_reads import SharedReads
from jobs.db.cursors import InvalidCursor
from jobs.db.engine import each_statement_alone, sessions_for
from jobs.db.tables import Job
from jobs.lifecycle.listing import JobRevision, ListQuery, revisions, revisions_of
from jobs.lifecycle.store import JobNotFound
from jobs.model.states import Status
from jobs.scheduling import queue
from jobs.scheduling.queue import Standing


class JobTags:
    """Reads the tags for many polls at once. One a process."""

    def __init__(self, engine: Engine, *, host_timeout_s: float) -> None:
        self._engine = each_statement_alone(engine)
        self._sessions = sessions_for(self._engine)
        self._host_timeout_s = host_timeout_s
        self._jobs = SharedReads(self._read_jobs)
        self._pages = SharedReads(self._read_pages)
        self._standings = SharedReads(self._read_standings)  # where queued jobs stand in the queue

    async def job_tag(self, job_id: str) -> str:
        """The tag of a job's view. Raises `JobNotFound`."""
        job = await self._jobs(job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job_tag(job.revision, await self._standings(job_id) if job.status is Status.QUEUED else None)

    async def page_tag(self, query: ListQuery) -> str:
        """The tag of a page of the list. Raises `jobs.db.cursors.InvalidCursor`."""
        jobs = await self._pages(query) or ()
        if isinstance(jobs, InvalidCursor):
            raise jobs
        page = jobs[: query.limit]
        queued_ids = [job.id for job in page if job.status is Status.QUEUED]
        standings = await asyncio.gather(*map(self._standings, queued_ids))
        waiting = {job_id: standing for job_id, standing in zip(queued_ids, standings, strict=True) if standing}
        return page_tag(query, page, waiting, has_more=len(jobs) > query.limit)

    def _read_jobs(self, job_ids: Sequence[str]) -> Mapping[str, JobRevision]:
        with self._engine.connect() as connection:
            return {job.id: job for job in revisions_of(connection, job_ids)}

    def _read_pages(self, queries: Sequence[ListQuery]) -> Mapping[ListQuery, Sequence[JobRevision] | InvalidCursor]:
        with self._sessions() as session:
            return {query: _revisions_or_error(session, query) for query in queries}

    def _read_standings(self, job_ids: Sequence[str]) -> Mapping[str, Standing]:
        with self._sessions() as session:
            return queue.standings(session, job_ids, host_timeout_s=self._host_timeout_s)


def _revisions_or_error(session: Session, query: ListQuery) -> Sequence[JobRevision] | InvalidCursor:
    """A wrong cursor must not spoil the read of others."""
    try:
        return revisions(session, query)
    except InvalidCursor as error:
        return error


def standings_of(session: Session, jobs: Sequence[Job], *, host_timeout_s: float) -> Mapping[str, Standing]:
    """Where the queued ones among the jobs stand in the queue, by id."""
    queued_ids = [job.id for job in jobs if job.status is Status.QUEUED]
    return queue.standings(session, queued_ids, host_timeout_s=host_timeout_s) if queued_ids else {}


def page_tag(
    query: ListQuery, page: Sequence[Job | JobRevision], waiting: Mapping[str, Standing], *, has_more: bool
) -> str:
    """The tag of a page that shows these jobs, and where the queued ones stand in the queue."""
    rows = [(job.id, job.revision, waiting.get(job.id)) for job in page]
    return tag_of(query.identity, query.limit, query.cursor, rows, has_more)
