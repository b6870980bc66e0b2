"""What is new of all jobs: their states by what was added to any history, and the progress of those that run.

A stream of all jobs begins now; who wants a whole table opens it first and then reads the list. A state is told as it
is when it is told, and once for several lines of history: an id need not hold more than which lines were told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from api.live import changes
from api.live.positions import FeedPosition
from api.live.sent_rows import Told
from api.live.step import Step, Telling
from api.live.topics import Reads, Topic
from api.row_views import progress_of
from jobs.db.tables import Job
from jobs.model.states import Status
from jobs.views.live import AnyJobProgress, AnyJobState, Kind

ALL_JOBS = "all jobs"  # what its ids are of
_MOST_EVENTS = 500  # in one step
_MOST_BEFORE = 10_000  # lines of history: one that appears after so many later ones is missed by a new stream


class _Progress(NamedTuple):
    """How far a running job was, and when that was news: a number that grows."""

    project: str
    owner: str
    labels: Mapping[str, Any]
    revision: int
    told: str
    number: int


@dataclass(frozen=True)
class Wanted:
    """Which jobs, by what does not change about them."""

    project: str | None = None
    owner: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # all of these

    def has(self, job: Job | _Progress) -> bool:
        """Whether the job is one of them."""
        if self.project not in (None, job.project) or self.owner not in (None, job.owner):
            return False
        return all(job.labels.get(key) == value for key, value in self.labels)


class FeedTopic(Topic[FeedPosition, Wanted]):
    """All jobs."""

    spacing_s = 0.25

    def __init__(self, reads: Reads) -> None:
        super().__init__(reads)
        self._running: dict[str, _Progress] = {}
        self._number = 0
        self._newest = 0  # id of a line of history

    def look(self, session: Session) -> bool:
        """Read the progress of those that run; whether anything changed. Not by two threads at once."""
        rows = session.execute(select(Job.id, Job.revision).where(Job.status == Status.RUNNING))
        running = {row.id: row.revision for row in rows}
        known = {job_id: self._running[job_id].revision for job_id in running if job_id in self._running}
        changed = [job_id for job_id, revision in running.items() if known.get(job_id) != revision]
        self._running = {job_id: self._running[job_id] for job_id in known}
        before = self._number
        for job in _jobs(session, changed):
            told = AnyJobProgress(id=job.id, progress=progress_of(job)).model_dump_json()
            earlier = self._running.get(job.id)
            number = earlier.number if earlier and earlier.told == told else self._number + 1
            self._number = max(self._number, number)
            self._running[job.id] = _Progress(job.project, job.owner, job.labels, job.revision, told, number)
        newest = changes.newest_event(session)
        has_news = self._number > before or newest != self._newest
        self._newest = newest
        return has_news

    def _read(self, session: Session, position: FeedPosition, wanted: Wanted) -> Step[FeedPosition]:
        floor = self.reads.horizons.settled.events
        told = position.event
        if told is None:  # a new stream: what was before it is in the list
            floor = self.reads.horizons.look(session).events
            told = changes.so_far(session, floor=floor, limit=_MOST_BEFORE)
        telling = Telling(position, of=ALL_JOBS)
        more = _tell_states(session, telling, wanted, told, floor)
        number = self._number  # first: what is added meanwhile has greater ones
        for one in list(self._running.values()):
            if position.progress < one.number <= number and wanted.has(one):
                telling.mention(Kind.PROGRESS, one.told)
        telling.settle(progress=number)
        return telling.step(more=more)


def _tell_states(session: Session, telling: Telling[FeedPosition], wanted: Wanted, told: Told, floor: int) -> bool:
    """Tell each job at its newest line, so that who comes back in between is told the rest. Whether there is more."""
    found = changes.with_news(session, told, limit=_MOST_EVENTS)
    newest = {job_id: event_id for event_id, job_id in found}
    at_line = {newest[job.id]: job for job in _jobs(session, newest)}
    for event_id, _ in found:
        told = told.and_also([event_id], floor=min(floor, event_id))
        job = at_line.get(event_id)
        if job is not None and wanted.has(job):
            telling.tell(Kind.STATE, AnyJobState.model_validate(job).model_dump_json(), event=told)
    more = len(found) == _MOST_EVENTS
    telling.settle(event=told if more else told.and_also([], floor=floor))
    return more


def _jobs(session: Session, job_ids: Iterable[str]) -> list[Job]:
    ids = cast(list(job_ids), ARRAY(String))
    return list(session.scalars(select(Job).where(Job.id == func.any(ids))))
