"""The stream of all jobs: the states of jobs with new lines of history, the progress of running jobs, and deletions.

The stream starts now: a reader who wants a whole table opens it first and then reads the list. A state is the one at
the time of sending, and is sent once for several lines of history. So an event id only says which lines were sent.
A deletion leaves no line: the deleted jobs of the last minute are sent to all listeners, and to those who come back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from api.live import changes
from api.live.positions import FeedPosition
from api.live.sent_rows import SentRows
from api.live.step import Step, StepBuilder
from api.live.topics import Reads, Topic
from api.row_views import progress_of
from jobs.db.tables import Job
from jobs.lifecycle.deletion import deleted_within
from jobs.model.states import Status
from jobs.views.live import DELETED, AnyJobDeletion, AnyJobProgress, AnyJobState, Kind

ALL_JOBS = "all jobs"  # names the stream in its ids
_MOST_EVENTS = 500  # in one step
_DELETED_FOR = timedelta(minutes=1)  # so long a deletion is sent; its transaction is much shorter
_MOST_BEFORE = 10_000  # lines of history: a new stream misses a line that appears after so many later ones


class _Progress(NamedTuple):
    """The progress of a running job. `number` grows with each change of any job's progress."""

    project: str
    owner: str
    labels: Mapping[str, Any]
    revision: int
    view_json: str
    number: int


@dataclass(frozen=True)
class FeedFilter:
    """Chooses jobs by properties that never change."""

    project: str | None = None
    owner: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # all of these

    def has(self, job: Job | _Progress) -> bool:
        """Whether the filter chooses the job."""
        if self.project not in (None, job.project) or self.owner not in (None, job.owner):
            return False
        return all(job.labels.get(key) == value for key, value in self.labels)


class FeedTopic(Topic[FeedPosition, FeedFilter]):
    """All jobs."""

    spacing_s = 0.25

    def __init__(self, reads: Reads) -> None:
        super().__init__(reads)
        self._running: dict[str, _Progress] = {}
        self._deleted: dict[str, int] = {}  # by job; the numbers are among those of the progress
        self._number = 0
        self._newest_event = 0

    def look(self, session: Session) -> bool:
        """Read the progress of running jobs; returns whether anything changed. Not for two threads at once."""
        rows = session.execute(select(Job.id, Job.revision).where(Job.status == Status.RUNNING))
        running = {row.id: row.revision for row in rows}
        still_running = {job_id: progress for job_id, progress in self._running.items() if job_id in running}
        changed = [
            job_id
            for job_id, revision in running.items()
            if job_id not in still_running or still_running[job_id].revision != revision
        ]
        self._running = still_running
        number_before = self._number
        for job in _jobs(session, changed):
            view_json = AnyJobProgress(id=job.id, progress=progress_of(job)).model_dump_json()
            earlier = self._running.get(job.id)
            number = earlier.number if earlier and earlier.view_json == view_json else self._number + 1
            self._number = max(self._number, number)
            self._running[job.id] = _Progress(job.project, job.owner, job.labels, job.revision, view_json, number)
        self._note_deletions(session)
        newest_event = changes.newest_event(session)
        has_news = self._number > number_before or newest_event != self._newest_event
        self._newest_event = newest_event
        return has_news

    def _note_deletions(self, session: Session) -> None:
        recent = deleted_within(session, _DELETED_FOR)
        numbers: dict[str, int] = {}
        for job_id in recent:
            numbers[job_id] = self._deleted.get(job_id) or self._number + 1
            self._number = max(self._number, numbers[job_id])
        self._deleted = numbers

    def _read(self, session: Session, position: FeedPosition, job_filter: FeedFilter) -> Step[FeedPosition]:
        floor = self.reads.floors.latest.events
        sent_events = position.event
        if sent_events is None:  # a new stream: what was before it is in the list
            floor = self.reads.floors.update(session).events
            sent_events = changes.visible_events(session, floor=floor, limit=_MOST_BEFORE)
        builder = StepBuilder(session, position, of=ALL_JOBS)
        has_more = _add_states(session, builder, job_filter, sent_events, floor)
        number = self._number  # read before the progress: what is added meanwhile has greater numbers
        for progress in list(self._running.values()):
            if position.progress < progress.number <= number and job_filter.has(progress):
                builder.add_without_id(Kind.PROGRESS, progress.view_json)
        for job_id, deleted_number in list(self._deleted.items()):
            if position.progress < deleted_number <= number:
                builder.add_without_id(DELETED, AnyJobDeletion(id=job_id).model_dump_json())
        builder.shorten(progress=number)
        return builder.step(has_more=has_more)


def _add_states(
    session: Session, builder: StepBuilder[FeedPosition], job_filter: FeedFilter, sent_events: SentRows, floor: int
) -> bool:
    """Add the state of each job with new lines of history; returns whether there are more.

    A job comes at its newest line, so that a listener who comes back in between is sent the rest.
    """
    new_lines = changes.new_event_ids(session, sent_events, limit=_MOST_EVENTS)
    newest_line = {job_id: event_id for event_id, job_id in new_lines}
    job_at_line = {newest_line[job.id]: job for job in _jobs(session, newest_line)}
    for event_id, _ in new_lines:
        sent_events = sent_events.with_rows([event_id], floor=min(floor, event_id))
        job = job_at_line.get(event_id)
        if job is not None and job_filter.has(job):
            builder.add(Kind.STATE, AnyJobState.model_validate(job).model_dump_json(), event=sent_events)
    has_more = len(new_lines) == _MOST_EVENTS
    builder.shorten(event=sent_events if has_more else sent_events.with_rows([], floor=floor))
    return has_more


def _jobs(session: Session, job_ids: Iterable[str]) -> list[Job]:
    ids = cast(list(job_ids), ARRAY(String))
    return list(session.scalars(select(Job).where(Job.id == func.any(ids))))
