"""Finds changes of watched jobs. Called by the rest of `api.live`.

A trigger of the database notifies `CHANNEL` for every line of history, and every change of a job's state writes one.
Progress, metrics and log lines send no hints: they are written a thousand times a second. They are found by looking at
all watched jobs in one query, which also makes up for lost hints: docs/decisions/0021-history-notifies.md.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String, cast, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE
from sqlalchemy.orm import Session

from api.live.sent_rows import SentRows
from jobs.db.tables import Attempt, Job, JobEvent, LogLine
from jobs.model.states import Status
from jobs.scheduling.queue import Standing, standings

CHANNEL = "hora_jobs"
ANY_JOB = "*"  # the payload when there are too many jobs to name


def jobs_in(payload: str) -> frozenset[str] | None:
    """The jobs that a hint names; None for all jobs."""
    return None if payload == ANY_JOB else frozenset(payload.split())


@dataclass(frozen=True)
class JobSnapshot:
    """Values that change whenever there is something new about a job."""

    revision: int
    status: Status
    attempt: int
    events: tuple[int, int]  # their number, and the newest id
    offsets: str  # a hash of the offsets, which say how much of the newest attempt's files is stored
    standing: Standing | None


def snapshots_of(session: Session, job_ids: Collection[str], *, host_timeout_s: float) -> Mapping[str, JobSnapshot]:
    """Snapshots of these jobs, by id. Jobs that do not exist are left out."""
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
    queued_ids = [row.id for row in rows if row.status is Status.QUEUED]
    waiting = standings(session, queued_ids, host_timeout_s=host_timeout_s)
    return {
        row.id: JobSnapshot(
            row.revision, row.status, row.attempt, (row.lines, row.newest), row.offsets, waiting.get(row.id)
        )
        for row in rows
    }  # fmt: skip


@dataclass(frozen=True)
class Floors:
    """The ids up to which no line of history, and no log line, can appear any more."""

    events: int = 0
    logs: int = 0


class FloorTracker:
    """Finds the floors, by looking at who is writing. One a process, for all its threads.

    A writer locks the table before it takes an id, and until its commit is visible. So read the newest id of the
    sequence, and then the writers: when all of these have finished, every row up to that id is visible, or never will
    be.
    """

    def __init__(self) -> None:
        self._candidate, self._writers = Floors(), frozenset[str]()
        self._lock = threading.Lock()
        self.latest = Floors()

    def update(self, session: Session) -> Floors:
        """Find the floors, and return them. Reads that start after this see every row up to them."""
        with self._lock:
            newest = Floors(*session.execute(_NEWEST_IDS).one())  # before the writers, or one could slip in between
            writers = frozenset(session.scalars(_WRITERS))
            if not self._writers & writers:
                self.latest, self._candidate, self._writers = self._candidate, newest, writers
            if not writers:
                self.latest = newest
            return self.latest


_NEWEST_IDS = text("""
    SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('job_events', 'id')::regclass), 0),
        coalesce(pg_sequence_last_value(pg_get_serial_sequence('log_lines', 'id')::regclass), 0)
""")
_WRITERS = text("""
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
        AND relation IN ('job_events'::regclass, 'log_lines'::regclass)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


def new_events(session: Session, job_id: str, sent: SentRows, *, limit: int) -> Sequence[JobEvent]:
    """Lines of a job's history that were not sent, at most so many, by id."""
    query = (
        select(JobEvent)
        .where(JobEvent.job_id == job_id, *_not_sent(JobEvent.id, sent))
        .order_by(JobEvent.id)
        .limit(limit)
    )
    return session.scalars(query).all()


def new_lines(session: Session, job_id: str, sent: SentRows, *, limit: int) -> Sequence[LogLine]:
    """Log lines of a job that were not sent, at most so many, by id."""
    query = (
        select(LogLine).where(LogLine.job_id == job_id, *_not_sent(LogLine.id, sent)).order_by(LogLine.id).limit(limit)
    )
    return session.scalars(query).all()


def new_event_ids(session: Session, sent: SentRows, *, limit: int) -> Sequence[tuple[int, str]]:
    """Ids of lines of all jobs' histories that were not sent, at most so many, with the job of each."""
    query = select(JobEvent.id, JobEvent.job_id).where(*_not_sent(JobEvent.id, sent)).order_by(JobEvent.id).limit(limit)
    return [(row.id, row.job_id) for row in session.execute(query)]


def visible_events(session: Session, *, floor: int, limit: int) -> SentRows:
    """All lines of all histories that are visible now: a new listener is sent only what appears later.

    No line up to `floor` can appear any more. If there are more than `limit` lines after it, the floor moves up to the
    newest `limit` of them.
    """
    query = select(JobEvent.id).where(JobEvent.id > floor).order_by(JobEvent.id.desc()).limit(limit)
    ids = session.scalars(query).all()
    if len(ids) == limit:
        floor = ids[-1]
    return SentRows(floor=floor).with_rows(ids, floor=floor)


def newest_event(session: Session) -> int:
    """The id of the newest visible line of all histories; 0 if there is none."""
    return session.scalar(select(JobEvent.id).order_by(JobEvent.id.desc()).limit(1)) or 0


def resumed_step(session: Session, job_id: str, *, after_attempt: int) -> tuple[int, int | None]:
    """Among the attempts after one: the newest that resumed, and the least step from which one resumed, or None."""
    row = session.execute(
        select(func.max(Attempt.number), func.min(Attempt.resumed_step)).where(
            Attempt.job_id == job_id, Attempt.number > after_attempt, Attempt.resumed_step.is_not(None)
        )
    ).one()
    number: int | None = row[0]
    return (after_attempt, None) if number is None else (number, row[1])


def _not_sent(ids: Any, sent: SentRows) -> tuple[Any, Any]:
    is_beyond = ids.op("<@", is_comparison=True)(cast(sent.multirange, INT8MULTIRANGE))
    return ids > sent.floor, ~is_beyond
