"""Stores a run that was trained without the service, as a job that has ended. Called by the api.

All of it happens in one transaction. So nobody sees half of a run, no dispatcher places its job, and nothing ends its
attempts as abandoned. The states are those of any job, and the rows of its records are made by the same intake. But all
times are those of the run, and it counts for no quota, GPU-hours or estimate.

    RunChanged      the run was imported before, and has another last attempt or another project now
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker

from jobs.db.storable import storable
from jobs.db.tables import Attempt, Job, JobEvent
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease, get_job, touch, transition
from jobs.lifecycle.submission import write_imported_job
from jobs.model.plan import resolve_plan
from jobs.model.runs import ExportedRun, RunAttempt
from jobs.model.states import LOST, EndReason, EventKind, Status

_BATCH_BYTES = 8 * 1024 * 1024  # in memory at once, of all files of an attempt together


class RunChanged(ValueError):
    """The run was imported before, and has another last attempt or another project now."""

    def __init__(self, job: Job, then: str, now: str) -> None:
        super().__init__(
            f"the run was imported as job {job.id} {then}, and now it is {now}: a job that has ended does not change"
        )


@dataclass(frozen=True)
class ReceivedFiles:
    """The records and logs of an attempt of a run, in a folder of its own."""

    folder: Path

    @property
    def records(self) -> Path:
        return self.folder / "records"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def launcher_log(self) -> Path:
        return self.logs / "launcher.log"

    @property
    def own_checkpoints(self) -> Path:
        """There are none: they stay where the run was trained."""
        return self.folder / "checkpoints"


def earlier_import(session: Session, exported: ExportedRun, *, owner: str) -> Job | None:
    """The job of this run, if its owner imported it before. Raises `RunChanged`.

    Call this before `store_run` in the same transaction: other imports of this run wait until the commit.
    """
    run_id, attempts, project = exported.run.id, len(exported.attempts), exported.run.spec.project
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"run\n{owner}\n{run_id}", 0))))
    job = session.scalar(select(Job).where(Job.owner == owner, Job.run_id == run_id))
    if job is not None and job.attempt != attempts:
        raise RunChanged(job, f"when attempt {job.attempt} was its last one", f"attempt {attempts}")
    if job is not None and job.project != project:
        raise RunChanged(job, f"in the project {job.project}", f"for the project {project}")
    return job


def store_run(session: Session, exported: ExportedRun, files_of: Callable[[int], ReceivedFiles], *, owner: str) -> Job:
    """Store a run and what its ranks wrote. `files_of` has the files of an attempt. Raises `UnworkablePlan`."""
    run = exported.run
    plan = resolve_plan(run.spec, None)
    job = write_imported_job(session, spec=run.spec, plan=plan, owner=owner, run_id=run.id, created_at=run.created_at)
    _add_event(session, job.id, EventKind.SUBMITTED, run.created_at, {"owner": owner, "run": run.id})
    for attempt in exported.attempts:
        lease = _begin(session, job.id, attempt)
        _store_written(session, lease, attempt, files_of(attempt.number))
        _end(session, lease, attempt, is_last=attempt is exported.attempts[-1])
    touch(session, job.id, checkpoint_bytes=None)  # they are not on a host of the service
    session.flush()
    return get_job(session, job.id)


def _begin(session: Session, job_id: str, attempt: RunAttempt) -> Lease:
    transition(session, job_id, Status.LAUNCHING, attempt=attempt.number)
    at = attempt.started_at
    shares = [{"host": node.name, "slots": list(range(node.ranks))} for node in attempt.nodes]
    row = session.execute(
        insert(Attempt)
        .values(
            job_id=job_id, number=attempt.number, host=attempt.nodes[0].name, shares=shares, gpus=attempt.ranks,
            queued_at=at, created_at=at, claimed_at=at, lease_expires_at=attempt.ended_at, copied_at=func.now(),
        )
        .returning(Attempt.id, Attempt.token)
    ).one()  # fmt: skip
    data = {"shares": shares, "slurm_job": attempt.slurm_job}
    _add_event(session, job_id, EventKind.PLACED, at, data, attempt=attempt.number)
    return Lease(row.id, str(row.token), job_id, attempt.number)


def _store_written(session: Session, lease: Lease, attempt: RunAttempt, files: ReceivedFiles) -> None:
    """Store records and logs with the intake. Its transactions are parts of this one."""
    within = sessionmaker(session.connection(), join_transaction_mode="create_savepoint", expire_on_commit=False)
    intake = Intake(within, lease, files, ranks=attempt.ranks, printed_at=attempt.ended_at, batch_bytes=_BATCH_BYTES)
    intake.drain()


def _end(session: Session, lease: Lease, attempt: RunAttempt, *, is_last: bool) -> None:
    """End the attempt. The job waits for the next one, or ends with the last one, whatever its reason."""
    assert attempt.reason is not None
    assert attempt.ended_at is not None
    reason, error, at = attempt.reason, attempt.error, attempt.ended_at
    job = get_job(session, lease.job_id)
    to = reason.outcome.status if is_last else Status.QUEUED
    if to is Status.SUCCEEDED and job.status is Status.LAUNCHING:  # no rank wrote when it started
        transition(session, job.id, Status.RUNNING, lease=lease)
    if is_last:
        transition(session, job.id, to, lease=lease, end_reason=reason, error=error, ended_at=at)
    else:
        restarts, losses = job.restarts + reason.outcome.counts, job.losses + (reason in LOST)
        transition(session, job.id, to, lease=lease, restarts=restarts, losses=losses, queued_at=at)
    ended = {"ended_at": at, "end_reason": reason, "error": error}
    session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(storable(ended)))
    _add_end_events(session, lease, reason, error, to, at)


def _add_end_events(
    session: Session, lease: Lease, reason: EndReason, error: str | None, to: Status, at: datetime
) -> None:
    data = {"end_reason": reason.value, "error": error}
    _add_event(session, lease.job_id, EventKind.ATTEMPT_ENDED, at, data, attempt=lease.number)
    if to is Status.QUEUED:
        _add_event(session, lease.job_id, EventKind.REQUEUED, at, {}, attempt=lease.number)
    else:
        _add_event(session, lease.job_id, EventKind.ENDED, at, {"status": to.value, **data}, attempt=lease.number)


def _add_event(
    session: Session, job_id: str, kind: EventKind, at: datetime, data: dict[str, Any], *, attempt: int | None = None
) -> None:
    row = {"job_id": job_id, "kind": kind, "attempt": attempt, "at": at, "data": storable(data)}
    session.execute(insert(JobEvent), [row])
