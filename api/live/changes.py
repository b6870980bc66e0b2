"""What changed of the jobs that somebody watches. Called by `api.live`; a trigger of the database sends the hints.

Whoever writes a line of history notifies `CHANNEL`: with it comes every change of a job's state. All else that jobs
tell, their progress, metrics and lines, is found by looking at the watched jobs, all of them in one query, so that
those who write it a thousand times a second owe nothing to those who watch: docs/decisions/0021-history-notifies.md.
What is looked at also covers hints that were lost.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String, cast, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE
from sqlalchemy.orm import Session

from api.live.sent_rows import Told
from jobs.db.tables import Attempt, Job, JobEvent, LogLine
from jobs.model.states import Status
from jobs.scheduling.queue import Standing, standings

CHANNEL = "hora_jobs"
ANY_JOB = "*"  # a payload: too many jobs to name


def jobs_in(payload: str) -> frozenset[str] | None:
    """The jobs that a hint is about; None for any of them."""
    return None if payload == ANY_JOB else frozenset(payload.split())


@dataclass(frozen=True)
class Seen:
    """How a job was when it was looked at: whatever it tells, something of this changes with it."""

    revision: int
    status: Status
    attempt: int
    events: tuple[int, int]  # how many, and the newest
    offsets: str  # of the newest attempt: how much of what its ranks wrote is stored
    standing: Standing | None


def look(session: Session, job_ids: Collection[str], *, host_timeout_s: float) -> Mapping[str, Seen]:
    """How these jobs are, by id; of those that there are."""
    lines, newest = func.count().label("lines"), func.coalesce(func.max(JobEvent.id), 0).label("newest")
    events = select(lines, newest).where(JobEvent.job_id == Job.id).lateral("events")
    rows = session.execute(
        select(
            Job.id, Job.revision, Job.status, Job.attempt, events.c.lines, events.c.newest,
            func.coalesce(func.md5(cast(Attempt.offsets, String)), "").label("offsets"),
        )
        .select_from(Job)
        .join(events, text("true"))
        .outerjoin(Attempt, (Attempt.job_id == Job.id) & (Attempt.number == Job.attempt))
        .where(Job.id == func.any(cast(list(job_ids), ARRAY(String))))
    ).all()  # fmt: skip
    queued = [row.id for row in rows if row.status is Status.QUEUED]
    where = standings(session, queued, host_timeout_s=host_timeout_s)
    return {
        row.id: Seen(
            row.revision, row.status, row.attempt, (row.lines, row.newest), row.offsets, where.get(row.id)
        )
        for row in rows
    }  # fmt: skip


@dataclass(frozen=True)
class Floors:
    """Up to which id no line of history, and no line that a rank printed, can appear any more."""

    events: int = 0
    logs: int = 0


class Horizons:
    """Finds out the floors, by who is writing. One a process, for all its threads.

    Whoever takes an id holds a lock on the table from before until the commit is visible. So when all those have let go
    of theirs who held one after an id was read off the sequence, then what was given up to that id is visible, or
    never will be.
    """

    def __init__(self) -> None:
        self._mark, self._writers = Floors(), frozenset[str]()
        self._lock = threading.Lock()
        self.settled = Floors()  # as they were found last

    def look(self, session: Session) -> Floors:
        """The floors as they are known now. What is read from now on sees every row up to them."""
        with self._lock:
            mark = Floors(*session.execute(_MARKS).one())  # before the locks, or a writer could slip between the two
            writers = frozenset(session.scalars(_WRITERS))
            if not self._writers & writers:
                self.settled, self._mark, self._writers = self._mark, mark, writers
            if not writers:
                self.settled = mark
            return self.settled


_MARKS = text("""
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('job_events', 'id')::regclass), 0),
        coalesce(pg_sequence_last_value(pg_get_serial_sequence('log_lines', 'id')::regclass), 0)
""")
_WRITERS = text("""
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
        AND relation IN ('job_events'::regclass, 'log_lines'::regclass)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


def new_events(session: Session, job_id: str, told: Told, *, limit: int) -> Sequence[JobEvent]:
    """Lines of a job's history that were not told, at most so many, by id."""
    untold = (JobEvent.id > told.floor, ~_among(JobEvent.id, told))
    query = select(JobEvent).where(JobEvent.job_id == job_id, *untold).order_by(JobEvent.id).limit(limit)
    return session.scalars(query).all()


def new_lines(session: Session, job_id: str, told: Told, *, limit: int) -> Sequence[LogLine]:
    """The same of the lines that its ranks printed."""
    untold = (LogLine.id > told.floor, ~_among(LogLine.id, told))
    query = select(LogLine).where(LogLine.job_id == job_id, *untold).order_by(LogLine.id).limit(limit)
    return session.scalars(query).all()


def with_news(session: Session, told: Told, *, limit: int) -> Sequence[tuple[int, str]]:
    """Ids of lines of any job's history that were not told, at most so many, with the job of each."""
    untold = (JobEvent.id > told.floor, ~_among(JobEvent.id, told))
    query = select(JobEvent.id, JobEvent.job_id).where(*untold).order_by(JobEvent.id).limit(limit)
    return [(row.id, row.job_id) for row in session.execute(query)]


def so_far(session: Session, *, floor: int, limit: int) -> Told:
    """All lines of any history that are visible now, for somebody who is told only what appears from now on.

    No line up to `floor` can appear any more. That may be long ago: of more lines than `limit` since then, the older
    ones are taken for settled, too.
    """
    query = select(JobEvent.id).where(JobEvent.id > floor).order_by(JobEvent.id.desc()).limit(limit)
    ids = session.scalars(query).all()
    if len(ids) == limit:
        floor = ids[-1]
    return Told(floor=floor).and_also(ids, floor=floor)


def newest_event(session: Session) -> int:
    """Id of the newest line of any history that is visible; 0 where there is none."""
    return session.scalar(select(JobEvent.id).order_by(JobEvent.id.desc()).limit(1)) or 0


def resumed_step(session: Session, job_id: str, *, after_attempt: int) -> tuple[int, int | None]:
    """The newest attempt that said from which step it goes on, and the least such step of those after one; or None."""
    row = session.execute(
        select(func.max(Attempt.number), func.min(Attempt.resumed_step)).where(
            Attempt.job_id == job_id, Attempt.number > after_attempt, Attempt.resumed_step.is_not(None)
        )
    ).one()
    number: int | None = row[0]
    return (after_attempt, None) if number is None else (number, row[1])


def _among(ids: Any, told: Told) -> Any:
    return ids.op("<@", is_comparison=True)(cast(told.multirange, INT8MULTIRANGE))
