"""Attempts and the slots they hold: claim, renew, fence, end, release.

The life of an attempt: the dispatcher places it (`jobs.scheduling.placing`: attempt, slots and job in one transaction).
A supervisor `claim`s it, `renew`s its lease and `fence`s its writes. The supervisor `end`s it, or the reaper does after
the lease expired. The slots of each host are `release`d only when no process of the attempt is left there.

    StaleLease      the attempt has ended, or another writer holds it; this writer has to stop
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Float, Row, Select, cast, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.lifecycle import bursts, idle, run_durations, usage
from jobs.lifecycle.store import (
    ANY_LEASE,
    Lease,
    add_event,
    add_events,
    cancel_saves,
    is_valid,
    select_leased,
    transition,
)
from jobs.model.pools import PREFIX
from jobs.model.preemption import PreemptionCause
from jobs.model.states import LOST, EndReason, EventKind, Status, status_after
from jobs.runtime.processes import ProcessId

_NOW = func.now()


class StaleLease(RuntimeError):
    """This writer no longer holds the attempt."""


@dataclass(frozen=True)
class StopRequests:
    """Requests to end an attempt, which its supervisor obeys: the first one that is set. And how long it may take."""

    cancel_requested: bool
    cancel_saves: bool = False  # first
    is_pruned: bool = False  # by its search
    why_stopped: str | None = None  # nobody used its slots
    pause_requested: bool = False
    why_paused: str | None = None  # the same; None: a person paused it
    preemption: PreemptionCause | None = None
    time_limit_s: float | None = None  # of the job's spec, which a person may change while the attempt runs


def claim(session: Session, attempt_id: int, *, lease_s: float) -> Lease | None:
    """Take a placed attempt for a supervisor that starts now. None if another took it, or it has ended."""
    row = session.execute(_CLAIM, {"attempt_id": attempt_id, "lease": timedelta(seconds=lease_s)}).one_or_none()
    return None if row is None else Lease(attempt_id, str(row.token), row.job_id, row.number)


_CLAIM = text("""
    UPDATE attempts SET claimed_at = now(), lease_expires_at = now() + :lease
    WHERE id = :attempt_id AND claimed_at IS NULL AND ended_at IS NULL
    RETURNING token, job_id, number
""")


def record_supervisor(session: Session, lease: Lease, process: ProcessId) -> None:
    """Store which process supervises the attempt, so that its host's agent sees when that process is gone.

    Its shares get the versions of the software that their hosts have now. Nothing is written if the attempt has ended
    meanwhile. Its supervisor finds that out by itself.
    """
    recorded = session.scalar(
        update(Attempt)
        .where(is_valid(lease))
        .values(supervisor_pid=process.pid, supervisor_start_ticks=process.started)
        .returning(Attempt.id)
    )
    if recorded is not None:
        session.execute(_NOTE_SOFTWARE, {"attempt_id": lease.attempt_id})
        add_event(session, lease.job_id, EventKind.LAUNCHED, attempt=lease.number, data={"pid": process.pid})


_NOTE_SOFTWARE = text("""
    UPDATE attempts SET shares = (
        SELECT coalesce(jsonb_agg(share || coalesce(software, '{}') ORDER BY place), '[]')
        FROM jsonb_array_elements(shares) WITH ORDINALITY AS of_attempt (share, place)
        LEFT JOIN (
            SELECT name, jsonb_build_object('software', info -> 'versions' ||
                jsonb_build_object('python', info -> 'python', 'system', info -> 'system')) AS software
            FROM hosts WHERE info ?& ARRAY['versions', 'python', 'system']
        ) AS known ON name = share ->> 'host'
    )
    WHERE id = :attempt_id
""")


def renew(session: Session, lease: Lease, *, lease_s: float) -> None:
    """Hold the attempt for another `lease_s` seconds. Raises `StaleLease`."""
    renewed = session.scalar(
        update(Attempt)
        .where(
            is_valid(lease)
        )  # on the row itself: a subquery would not see that the row ended while this statement waited
        .values(lease_expires_at=func.now() + timedelta(seconds=lease_s))
        .returning(Attempt.id)
    )
    if renewed is None:
        raise StaleLease(lease)


def stop_requests(session: Session, lease: Lease) -> StopRequests:
    """Read whether the attempt was asked to end (cancel, search, pause, preemption, idle slots), and its time limit.

    Raises `StaleLease`.
    """
    row = session.execute(
        select(
            Job.cancel_requested_at.is_not(None).label("cancel"),
            Job.paused_at.is_not(None).label("pause"),
            Job.pruned_at_epoch.is_not(None).label("pruned"),
            Job.idle,
            Attempt.preemption,
            Job.spec["time_limit_s"].as_float().label("time_limit_s"),
        )
        .join(Attempt, Attempt.job_id == Job.id)
        .where(is_valid(lease))
    ).one_or_none()
    if row is None:
        raise StaleLease(lease)
    return StopRequests(
        cancel_requested=row.cancel,
        cancel_saves=row.cancel and cancel_saves(session, lease.job_id),
        is_pruned=row.pruned,
        why_stopped=idle.why_stopped(row.idle, attempt=lease.number),
        pause_requested=row.pause,
        why_paused=idle.why_paused(row.idle, attempt=lease.number),
        preemption=row.preemption,
        time_limit_s=row.time_limit_s,
    )


def fence(session: Session, lease: Lease) -> None:
    """Hold the attempt's row until the commit, so that nobody ends it meanwhile. Raises `StaleLease`."""
    if session.scalar(select_leased(lease).with_for_update(read=True)) is None:
        raise StaleLease(lease)


def end(
    session: Session,
    lease: Lease,
    reason: EndReason,
    *,
    error: str | None = None,
    backoff_s: float = 0.0,
    backoff_limit_s: float = 0.0,
) -> Status:
    """End the attempt, and its job too unless that goes back to the queue. Returns the job's new status.

    The slots stay leased until `release`. Raises `StaleLease`.
    """
    job = _locked_job(session, lease)
    cancelled = job.cancel_requested_at is not None
    why_stopped = idle.why_stopped(job.idle, attempt=lease.number)
    why_paused = idle.why_paused(job.idle, attempt=lease.number)
    if why_stopped is not None and reason.outcome.retried:  # whatever became of the attempt meanwhile
        reason, error = EndReason.IDLE, why_stopped
    if job.pruned_at_epoch is not None and reason.outcome.retried:  # likewise
        reason, error = EndReason.PRUNED, None
    to = status_after(reason, cancel_requested=cancelled, restarts=job.restarts, max_restarts=job.max_restarts)
    if cancelled:
        reason, error = EndReason.CANCELLED, None
    if to is Status.SUCCEEDED and job.status is Status.LAUNCHING:  # it ended before its start was stored
        transition(session, job.id, Status.RUNNING, lease=lease)
    attained = usage.attained(job.slot_seconds + job.held_slot_s, level=job.level)
    if to is Status.QUEUED:
        restarts = job.restarts + (1 if reason.outcome.counts else 0)
        losses = job.losses + (1 if reason in LOST else 0)
        pause_s = _pause_s(reason, restarts, losses, backoff_s=backoff_s, limit_s=backoff_limit_s)
        transition(
            session, job.id, to, lease=lease,
            restarts=restarts, losses=losses,
            queued_at=func.now(), not_before=func.now() + timedelta(seconds=pause_s),
            idle=None if job.paused_at is None or why_paused is None else job.idle,
            **attained,
        )  # fmt: skip
    else:
        transition(session, job.id, to, lease=lease, end_reason=reason, error=error, ended_at=_NOW, **attained)
    session.execute(_END, storable({"attempt_id": lease.attempt_id, "reason": reason.value, "error": error}))
    _add_end_events(session, lease, reason, error, to)
    # From here on ends wait for each other, because they change the same rows. So this is short, and comes last.
    if to is Status.SUCCEEDED and reason is not EndReason.PRUNED:
        run_durations.record(session, lease.attempt_id)
    usage.charge(session, lease.attempt_id)
    if job.study_id is not None:
        usage.raise_levels(session, job.study_id)
    if job.burst is not None and attained["level"]:
        bursts.raise_waiting(session, job.burst)
    return to


_END = text("UPDATE attempts SET ended_at = now(), end_reason = :reason, error = :error WHERE id = :attempt_id")


def _locked_job(session: Session, lease: Lease) -> Row[Any]:
    """What `end` needs of the job and its attempt. Both are locked until the commit. Raises `StaleLease`."""
    job = session.execute(_lock_job(), vars(lease)).one_or_none()
    if job is None:
        raise StaleLease(lease)
    return job


@cache
def _lock_job() -> Select[Any]:
    held_s = cast(func.extract("epoch", func.now() - Attempt.created_at), Float(53))
    columns = (
        Job.id, Job.status, Job.cancel_requested_at, Job.paused_at, Job.pruned_at_epoch, Job.idle, Job.restarts,
        Job.losses, Job.spec["max_restarts"].as_integer().label("max_restarts"), Job.study_id, Job.burst, Job.level,
        Job.slot_seconds, (func.greatest(held_s, 0.0) * Attempt.gpus).label("held_slot_s"),
    )  # fmt: skip
    leased = select(*columns).join(Attempt, Attempt.job_id == Job.id).where(is_valid(ANY_LEASE))
    return leased.with_for_update(of=[Attempt, Job])


def _pause_s(reason: EndReason, restarts: int, losses: int, *, backoff_s: float, limit_s: float) -> float:
    """How long a job waits before it is placed again. It doubles with each restart that counts, and with each loss.

    After the first loss there is no wait, because another host may be free. Only jobs with repeated losses wait.
    """
    if reason.outcome.counts:
        doubled = restarts - 1
    elif reason in LOST and losses > 1:
        doubled = losses - 2
    else:
        return 0.0
    return min(backoff_s * 2.0 ** min(doubled, 64), limit_s)


def _add_end_events(session: Session, lease: Lease, reason: EndReason, error: str | None, to: Status) -> None:
    data = {"end_reason": reason.value, "error": error}
    ended = (EventKind.ENDED, {"status": to.value, **data})
    follows = (EventKind.REQUEUED, {}) if to is Status.QUEUED else ended
    add_events(session, lease.job_id, [(EventKind.ATTEMPT_ENDED, data), follows], attempt=lease.number)


def release(session: Session, attempt_id: int, *, host: str | None = None) -> None:
    """Release the slots of an ended attempt on a host (None: on all). Its processes there have ended."""
    session.execute(_RELEASE, {"attempt_id": attempt_id, "host": host, "pools": PREFIX})


# A pool has no slots of its own: they go.
_RELEASE = text("""
    WITH of_pool AS (
        DELETE FROM slots
        WHERE attempt_id = :attempt_id AND host = coalesce(:host, host) AND starts_with(host, :pools)
        AND EXISTS (SELECT FROM attempts WHERE id = :attempt_id AND ended_at IS NOT NULL)
    )
    UPDATE slots SET attempt_id = NULL, rank = NULL, quarantined_at = NULL
    WHERE attempt_id = :attempt_id AND host = coalesce(:host, host) AND NOT starts_with(host, :pools)
    AND EXISTS (SELECT FROM attempts WHERE id = :attempt_id AND ended_at IS NOT NULL)
""")


def quarantine(session: Session, attempt_id: int, *, host: str) -> None:
    """Put the slots of an ended attempt on a host into quarantine: its processes there do not end."""
    session.execute(
        update(Slot)
        .where(Slot.attempt_id == attempt_id, Slot.host == host, Slot.quarantined_at.is_(None))
        .values(quarantined_at=func.now())
    )


@dataclass(frozen=True)
class AbandonedAttempt:
    """A live attempt without a working supervisor, and the reason to end it with."""

    lease: Lease
    host: str
    reason: EndReason
    error: str


def some_are_abandoned(*, claim_timeout_s: float) -> ColumnElement[bool]:
    """Whether there are attempts that `abandoned` returns, as SQL."""
    return exists().where(Attempt.ended_at.is_(None), or_(_is_unclaimed(claim_timeout_s), _IS_EXPIRED))


def abandoned(session: Session, *, host_timeout_s: float, claim_timeout_s: float) -> list[AbandonedAttempt]:
    """Live attempts whose lease expired, whose host is lost, or that no supervisor took."""
    host_lost = Host.heartbeat_at < func.now() - timedelta(seconds=host_timeout_s)
    unclaimed = _is_unclaimed(claim_timeout_s)
    rows = session.execute(
        select(Attempt, host_lost.label("host_lost"), unclaimed.label("unclaimed"))
        .join(Host, Host.name == Attempt.host)
        .where(Attempt.ended_at.is_(None), or_(unclaimed, _IS_EXPIRED))
    ).all()
    return [
        AbandonedAttempt(Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number), attempt.host, *why)
        for attempt, is_lost, is_unclaimed in rows
        for why in [_why_abandoned(attempt.host, is_lost, is_unclaimed)]
    ]


def fence_expired(session: Session, lease: Lease) -> None:
    """Hold the row of an abandoned attempt, unless it was renewed meanwhile. Raises `StaleLease`."""
    unclaimed_or_expired = or_(Attempt.claimed_at.is_(None), _IS_EXPIRED)
    if session.scalar(select_leased(lease).where(unclaimed_or_expired).with_for_update()) is None:
        raise StaleLease(lease)


_IS_EXPIRED = Attempt.lease_expires_at < func.now()


def _is_unclaimed(claim_timeout_s: float) -> ColumnElement[bool]:
    """Whether no supervisor took an attempt in time."""
    return Attempt.claimed_at.is_(None) & (Attempt.created_at < func.now() - timedelta(seconds=claim_timeout_s))


def _why_abandoned(host: str, is_lost: bool, is_unclaimed: bool) -> tuple[EndReason, str]:
    if is_lost:
        return EndReason.HOST_LOST, f"host {host} stopped sending heartbeats"
    if is_unclaimed:
        return EndReason.LAUNCH_FAILED, f"no supervisor started on {host}"
    return EndReason.LEASE_EXPIRED, f"the supervisor on {host} stopped renewing its lease"


def first_rank_started(session: Session, lease: Lease, at: datetime) -> None:
    """Store that the attempt runs. Its first rank wrote its first line at `at`, by the host's clock."""
    started_at = session.scalar(
        update(Attempt)
        .where(Attempt.id == lease.attempt_id)
        .values(started_at=func.greatest(at, Attempt.created_at))  # that clock may be wrong
        .returning(Attempt.started_at)
    )
    transition(session, lease.job_id, Status.RUNNING, lease=lease, started_at=func.coalesce(Job.started_at, started_at))


def resumed(session: Session, lease: Lease, step: int) -> None:
    """Store that the attempt continues after `step`. Points of earlier attempts after this step are void."""
    session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(resumed_step=step))


def phases_ended(session: Session, lease: Lease, durations_s: dict[str, float]) -> None:
    """Store how long these phases of the attempt's set-up took, on rank 0."""
    setup = Attempt.setup.op("||")(cast(storable(durations_s), JSONB))
    session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(setup=setup))
