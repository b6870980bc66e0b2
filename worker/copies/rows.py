"""What the copier reads of the database and writes there: short transactions, and none while files travel."""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from jobs.copies.manifests import CheckpointManifest
from jobs.copies.resuming import SavedCheckpoint, best_first, saved_checkpoints
from jobs.db.tables import Attempt, Host, Job
from jobs.lifecycle.store import JobNotFound, add_event, get_job, touch
from jobs.model.states import EventKind
from jobs.scheduling.placement_rows import is_alive

_LEAST_KEPT = 2  # so that there is one before a damaged one
_MOST_AT_ONCE = 200


@dataclass(frozen=True)
class AttemptToCopy:
    """An attempt whose lead is this host, and which may have left something that the store lacks."""

    id: int
    job_id: str
    number: int
    is_script: bool
    kept_on_disk: int  # checkpoints
    ended_at: datetime | None
    copies_behind: dict[str, Any] | None
    is_newest: bool
    is_training: bool  # it is the newest, and has begun to train
    is_superseded: bool  # a later attempt has begun to train: what this one left is not needed any more
    keeps_checkpoints: bool
    keeps_artifacts: bool


def attempts_to_copy(session: Session, host: str, *, keep_files_days: float) -> list[AttemptToCopy]:
    """The attempts of a host with something to copy: live ones first, then the newest."""
    later = aliased(Attempt)
    has_moved_on = exists().where(
        later.job_id == Attempt.job_id, later.number > Attempt.number, later.resumed_step.is_not(None)
    )
    is_old = Job.ended_at < func.now() - timedelta(days=keep_files_days)
    query = (
        select(
            Attempt.id,
            Attempt.job_id,
            Attempt.number,
            Job.code.is_not(None).label("is_script"),
            Job.spec["checkpoint"]["keep"].as_integer().label("kept_on_disk"),
            Attempt.ended_at,
            Job.copies_behind,
            (Attempt.number == Job.attempt).label("is_newest"),
            ((Attempt.number == Job.attempt) & Attempt.resumed_step.is_not(None)).label("is_training"),
            has_moved_on.label("is_superseded"),
            ~func.coalesce(or_(is_old, Job.files_removed_at.is_not(None)), False).label("keeps_checkpoints"),
            Job.artifacts_removed_at.is_(None).label("keeps_artifacts"),
        )
        .join(Job, Job.id == Attempt.job_id)
        .where(Attempt.host == host, Attempt.copied_at.is_(None), Attempt.claimed_at.is_not(None))
        .order_by(Attempt.ended_at.desc().nulls_first(), Attempt.id.desc())
        .limit(_MOST_AT_ONCE)
    )
    return [AttemptToCopy(**row) for row in session.execute(query).mappings()]


@dataclass(frozen=True)
class Checkpoints:
    """What the rows say of the checkpoints of a job."""

    saved: Sequence[SavedCheckpoint]  # worth continuing from, the newest first
    best_first: Sequence[tuple[int, int]]  # attempt and step of those that have a value
    newest_attempt: int
    training_attempt: int  # the newest attempt that has begun to train; 0: none
    most_kept: int  # of the newest ones

    def best(self, among: Set[tuple[int, int]]) -> tuple[int, int] | None:
        """Attempt and step of the best one of some. None if none of them has a value."""
        return next((key for key in self.best_first if key in among), None)


def checkpoints_of(session: Session, job_id: str, keys: Collection[tuple[int, int]] = ()) -> Checkpoints:
    """What the rows say of the newest checkpoints of a job, and of those with these attempts and steps."""
    job = get_job(session, job_id)
    saved = saved_checkpoints(session, job, keys)
    training = select(func.max(Attempt.number)).where(Attempt.job_id == job_id, Attempt.resumed_step.is_not(None))
    return Checkpoints(
        saved=saved,
        best_first=[one.key for one in best_first(saved, job)],
        newest_attempt=job.attempt,
        training_attempt=session.scalar(training) or 0,
        most_kept=max(_LEAST_KEPT, job.spec["checkpoint"]["keep"]),
    )


def checkpoint_copied(session: Session, manifest: CheckpointManifest, *, duration_s: float) -> None:
    """Store that a checkpoint is in the store. Raises `JobNotFound` if a person deleted the job meanwhile."""
    _require_job(session, manifest.job)
    data = {"step": manifest.step, "bytes": manifest.total_bytes, "duration_s": duration_s}
    add_event(session, manifest.job, EventKind.CHECKPOINT_COPIED, attempt=manifest.attempt, data=data)


def all_copied(session: Session, attempt: AttemptToCopy, host: str) -> None:
    """Store that the store has all that an attempt left on a host, which has ended."""
    ended = (Attempt.id == attempt.id, Attempt.ended_at.is_not(None))
    session.execute(update(Attempt).where(*ended).values(copied_at=func.now()))
    behind = get_job(session, attempt.job_id).copies_behind
    if behind is not None and behind.get("host") == host:
        touch(session, attempt.job_id, copies_behind=None)


def say_behind(session: Session, attempt: AttemptToCopy, behind: dict[str, Any] | None) -> None:
    """Store what of a job waits to be copied for too long; None: nothing any more. Raises `JobNotFound`."""
    _require_job(session, attempt.job_id)
    if behind is not None and attempt.copies_behind is None:
        add_event(session, attempt.job_id, EventKind.COPIES_BEHIND, attempt=attempt.number, data=behind)
    touch(session, attempt.job_id, copies_behind=behind)


def _require_job(session: Session, job_id: str) -> None:
    """Make sure that nobody deletes the job before the commit."""
    there = select(Job.id).where(Job.id == job_id).with_for_update(read=True, key_share=True)
    if session.scalar(there) is None:
        raise JobNotFound(job_id)


def say_store(session: Session, host: str, problem: str | None) -> None:
    """Store why nothing is copied from a host; None: the store answers."""
    changed = (Host.name == host, Host.no_store.is_distinct_from(problem))
    session.execute(update(Host).where(*changed).values(no_store=problem))


def waits_for_copies(session: Session, host: str) -> bool:
    """Whether a host has something of jobs that ended there, which the store lacks."""
    uncopied = (
        Attempt.host == host, Attempt.copied_at.is_(None), Attempt.ended_at.is_not(None),
        Attempt.claimed_at.is_not(None),
    )  # fmt: skip
    return session.scalar(select(Attempt.id).where(*uncopied).limit(1)) is not None


@dataclass(frozen=True)
class Start:
    """What the rows say of the start of an attempt."""

    is_script: bool
    saved: Sequence[SavedCheckpoint]  # worth continuing from, the newest first
    host_before: str | None  # of the newest attempt before it of which a rank started; None: there was none


def start_of(session: Session, job_id: str, number: int, keys: Collection[tuple[int, int]] = ()) -> Start:
    """What an attempt that starts now continues from: the newest checkpoints, and those of `keys` that are valid."""
    job = get_job(session, job_id)
    before = session.scalar(_attempt_before(job_id, number))
    saved = saved_checkpoints(session, job, keys)
    return Start(job.code is not None, saved, None if before is None else before.host)


def copying_host(session: Session, job_id: str, number: int | None, *, host_timeout_s: float) -> str | None:
    """The host of the attempt before, or of the last one, if it still copies what that left.

    None: it has copied all, it is lost, or it cannot.
    """
    before = session.scalar(_attempt_before(job_id, number))
    if before is None or before.copied_at is not None:
        return None
    copies = (Host.name == before.host, Host.no_store.is_(None), is_alive(host_timeout_s))
    return session.scalar(select(Host.name).where(*copies))


def _attempt_before(job_id: str, number: int | None) -> Select[Attempt]:
    started = select(Attempt).where(Attempt.job_id == job_id, Attempt.started_at.is_not(None))
    if number is not None:
        started = started.where(Attempt.number < number)
    return started.order_by(Attempt.number.desc()).limit(1)
