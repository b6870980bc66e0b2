"""Attempts and the slots they hold: place, claim, renew, fence, end, release.

A life of an attempt: the dispatcher `place`s it (attempt, slots and job in one transaction), a supervisor
`claim`s it and from then on `renew`s its lease and `fence`s its writes, and someone `end`s it: the supervisor,
or the reaper once the lease has run out. The slots of each of its hosts are `release`d only when no process is left
on them.

    StaleLease      the attempt has ended or another holds it; the writer has to leave
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Float, Integer, String, bindparam, cast, exists, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Session

from jobs import run_times
from jobs.placement import Placement
from jobs.processes import ProcessId
from jobs.states import LOST, EndReason, EventKind, Status, status_after
from jobs.store import Lease, add_event, held, is_good, move, storable, transition
from jobs.tables import Attempt, Host, Job, JobEvent, Slot


class StaleLease(RuntimeError):
    """The attempt is no longer this writer's."""


@dataclass(frozen=True)
class Orders:
    """What the rest of the world wants of a supervisor; the first that is true counts."""

    cancel_requested: bool
    pause_requested: bool = False
    preempted_for: str | None = None  # why it has to make room


def place(session: Session, placements: Sequence[Placement], *, lease_s: float) -> list[Lease]:
    """Give queued jobs their slots; returns the leases of those that got all of theirs.

    Left out is a job that is no longer waiting, and one of whose slots not every one is free any more or whose hosts
    are drained. The lowest rank goes to the first slot of the first share.
    """
    if not placements:
        return []
    free = _lock_free(session, [slot for one in placements for slot in one.slots])
    possible = {}
    for placement in placements:
        slots = set(placement.slots)
        if slots <= free and placement.job_id not in possible:
            free -= slots
            possible[placement.job_id] = placement
    numbers = move(
        session, list(possible), Status.LAUNCHING,
        Job.cancel_requested_at.is_(None), Job.paused_at.is_(None),
        attempt=Job.attempt + 1, not_before=None,
    )  # fmt: skip
    if not numbers:
        return []
    placed = [possible[job_id] for job_id in possible if job_id in numbers]
    leases = _insert_attempts(session, placed, numbers, lease_s=lease_s)
    _lease_slots(session, placed, leases)
    events = [
        {"job_id": lease.job_id, "kind": EventKind.PLACED, "attempt": lease.number, "data": {"shares": one.to_json()}}
        for one, lease in zip(placed, leases, strict=True)
    ]
    session.execute(insert(JobEvent), events)
    return leases


def _lock_free(session: Session, slots: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of the slots that can be leased, locked until the commit, and their hosts before them.

    Who drains a host thus finds every attempt that was placed on it before.
    """
    hosts = session.scalars(
        select(Host.name)
        .where(Host.name.in_({host for host, _ in slots}), Host.drained_at.is_(None))
        .order_by(Host.name)
        .with_for_update(read=True)
    ).all()
    wanted = (
        func.unnest(
            cast([host for host, _ in slots], ARRAY(String)), cast([index for _, index in slots], ARRAY(Integer))
        )
        .table_valued("host", "index", name="wanted")
        .render_derived()
    )
    rows = session.execute(
        select(Slot.host, Slot.index)
        .join(wanted, (Slot.host == wanted.c.host) & (Slot.index == wanted.c.index))
        .where(Slot.host.in_(hosts))
        .where(Slot.attempt_id.is_(None), Slot.quarantined_at.is_(None), Slot.retired_at.is_(None))
        .order_by(Slot.host, Slot.index)
        .with_for_update(of=Slot)
    )
    return {(host, index) for host, index in rows}


def _insert_attempts(
    session: Session, placed: Sequence[Placement], numbers: Mapping[str, int], *, lease_s: float
) -> list[Lease]:
    waiting = session.execute(select(Job.id, Job.queued_at).where(Job.id == func.any(cast([*numbers], ARRAY(String)))))
    since = {row.id: row.queued_at for row in waiting}
    rows = session.execute(
        insert(Attempt)
        .values(
            lease_expires_at=func.now() + timedelta(seconds=lease_s),
            due_at=func.now() + bindparam("due_s", type_=Float) * timedelta(seconds=1),
        )
        .returning(Attempt.id, Attempt.token, Attempt.job_id, Attempt.number),
        [
            {
                "job_id": one.job_id,
                "number": numbers[one.job_id],
                "host": one.shares[0].host,
                "shares": one.to_json(),
                "gpus": one.gpus,
                "queued_at": since[one.job_id],
                "due_s": one.due_s,
            }
            for one in placed
        ],
    )
    leases = {row.job_id: Lease(row.id, str(row.token), row.job_id, row.number) for row in rows}
    return [leases[one.job_id] for one in placed]


def _lease_slots(session: Session, placed: Sequence[Placement], leases: Sequence[Lease]) -> None:
    taken = [
        (host, index, lease.attempt_id, rank)
        for one, lease in zip(placed, leases, strict=True)
        for rank, (host, index) in enumerate(one.slots)
    ]
    hosts, indices, attempts, ranks = map(list, zip(*taken, strict=True))
    rows = func.unnest(
        cast(hosts, ARRAY(String)), cast(indices, ARRAY(Integer)),
        cast(attempts, ARRAY(BigInteger)), cast(ranks, ARRAY(Integer)),
    ).table_valued("host", "index", "attempt_id", "rank", name="taken").render_derived()  # fmt: skip
    session.execute(
        update(Slot)
        .where(Slot.host == rows.c.host, Slot.index == rows.c.index)
        .values(attempt_id=rows.c.attempt_id, rank=rows.c.rank),
        execution_options={"synchronize_session": False},
    )


def claim(session: Session, attempt_id: int, *, lease_s: float) -> Lease | None:
    """Take a placed attempt for a supervisor that starts now; None where another took it or it has ended."""
    row = session.execute(
        update(Attempt)
        .where(Attempt.id == attempt_id, Attempt.claimed_at.is_(None), Attempt.ended_at.is_(None))
        .values(claimed_at=func.now(), lease_expires_at=func.now() + timedelta(seconds=lease_s))
        .returning(Attempt.token, Attempt.job_id, Attempt.number)
    ).one_or_none()
    return None if row is None else Lease(attempt_id, str(row.token), row.job_id, row.number)


def record_supervisor(session: Session, lease: Lease, process: ProcessId) -> None:
    """Note which process supervises the attempt, so that its host's agent sees when that is gone.

    Nothing is written where the attempt has ended meanwhile: its supervisor finds that out by itself.
    """
    noted = session.scalar(
        update(Attempt)
        .where(is_good(lease))
        .values(supervisor_pid=process.pid, supervisor_start_ticks=process.started)
        .returning(Attempt.id)
    )
    if noted is not None:
        add_event(session, lease.job_id, EventKind.LAUNCHED, attempt=lease.number, data={"pid": process.pid})


def renew(session: Session, lease: Lease, *, lease_s: float) -> None:
    """Hold the attempt for another `lease_s` seconds. Raises `StaleLease`."""
    renewed = session.scalar(
        update(Attempt)
        .where(is_good(lease))  # of the row itself: a subquery would not see that it ended while this waited for it
        .values(lease_expires_at=func.now() + timedelta(seconds=lease_s))
        .returning(Attempt.id)
    )
    if renewed is None:
        raise StaleLease(lease)


def orders(session: Session, lease: Lease) -> Orders:
    """Read what the supervisor is to do. Raises `StaleLease`."""
    row = session.execute(
        select(
            Job.cancel_requested_at.is_not(None).label("cancel"),
            Job.paused_at.is_not(None).label("pause"),
            Attempt.preempted_for,
        )
        .join(Attempt, Attempt.job_id == Job.id)
        .where(is_good(lease))
    ).one_or_none()
    if row is None:
        raise StaleLease(lease)
    return Orders(cancel_requested=row.cancel, pause_requested=row.pause, preempted_for=row.preempted_for)


def preempted_for(job_id: str) -> str:
    """Why an attempt is asked to make room, where it is for a job that waits."""
    return f"job {job_id}"


def request_preemption(session: Session, attempt_ids: Sequence[int], why: str) -> None:
    """Ask live attempts to save and make room, each once; their jobs go back to the queue.

    `why` is `preempted_for` a job, or a sentence.
    """
    asked = session.execute(
        update(Attempt)
        .where(Attempt.id.in_(attempt_ids), Attempt.ended_at.is_(None), Attempt.preempt_requested_at.is_(None))
        .values(preempt_requested_at=func.now(), preempted_for=why)
        .returning(Attempt.job_id, Attempt.number)
    )
    events = [
        {"job_id": job_id, "kind": EventKind.PREEMPT_REQUESTED, "attempt": number, "data": {"for": why}}
        for job_id, number in asked
    ]
    if events:
        session.execute(insert(JobEvent), events)


def fence(session: Session, lease: Lease, *, ending: bool = False) -> None:
    """Hold the attempt's row until the commit, so that nobody ends it meanwhile. Raises `StaleLease`."""
    if session.scalar(held(lease).with_for_update(read=not ending)) is None:
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
    """End the attempt and move its job on: to its end, or back to the queue. Returns the job's new status.

    The slots stay leased until `release`. Raises `StaleLease`.
    """
    fence(session, lease, ending=True)
    job = session.scalars(
        select(Job).where(Job.id == lease.job_id).with_for_update(), execution_options={"populate_existing": True}
    ).one()
    cancelled = job.cancel_requested_at is not None
    to = status_after(
        reason, cancel_requested=cancelled, restarts=job.restarts, max_restarts=int(job.spec["max_restarts"])
    )
    if cancelled:
        reason, error = EndReason.CANCELLED, None
    if to is Status.SUCCEEDED and job.status is Status.LAUNCHING:  # over before its start was stored
        transition(session, job.id, Status.RUNNING, lease=lease)
    if to is Status.QUEUED:
        restarts = job.restarts + (1 if reason.outcome.counts else 0)
        losses = job.losses + (1 if reason in LOST else 0)
        pause_s = _pause_s(reason, restarts, losses, backoff_s=backoff_s, limit_s=backoff_limit_s)
        transition(
            session, job.id, to, lease=lease,
            restarts=restarts, losses=losses,
            queued_at=func.now(), not_before=func.now() + timedelta(seconds=pause_s),
        )  # fmt: skip
    else:
        transition(session, job.id, to, lease=lease, end_reason=reason, error=error, ended_at=func.now())
    session.execute(
        update(Attempt)
        .where(Attempt.id == lease.attempt_id)
        .values(storable({"ended_at": func.now(), "end_reason": reason, "error": error}))
    )
    if to is Status.SUCCEEDED:
        run_times.record(session, lease.attempt_id)
    _tell(session, lease, reason, error, to)
    return to


def _pause_s(reason: EndReason, restarts: int, losses: int, *, backoff_s: float, limit_s: float) -> float:
    """How long a job waits before it is placed again: doubled with each restart that counts, and with each loss.

    The first loss costs nothing: another host may be free. What loses one attempt after the other is slowed down.
    """
    if reason.outcome.counts:
        doubled = restarts - 1
    elif reason in LOST and losses > 1:
        doubled = losses - 2
    else:
        return 0.0
    return min(backoff_s * 2.0 ** min(doubled, 64), limit_s)


def _tell(session: Session, lease: Lease, reason: EndReason, error: str | None, to: Status) -> None:
    data = {"end_reason": reason.value, "error": error}
    add_event(session, lease.job_id, EventKind.ATTEMPT_ENDED, attempt=lease.number, data=data)
    if to is Status.QUEUED:
        add_event(session, lease.job_id, EventKind.REQUEUED, attempt=lease.number)
    else:
        add_event(session, lease.job_id, EventKind.ENDED, attempt=lease.number, data={"status": to.value, **data})


def release(session: Session, attempt_id: int, *, host: str | None = None) -> None:
    """Give back the slots that an ended attempt has on a host (None: on all); its processes there are gone."""
    ended = exists().where(Attempt.id == attempt_id, Attempt.ended_at.is_not(None))
    given_back = update(Slot).where(Slot.attempt_id == attempt_id, ended)
    if host is not None:
        given_back = given_back.where(Slot.host == host)
    session.execute(given_back.values(attempt_id=None, rank=None, quarantined_at=None))


def quarantine(session: Session, attempt_id: int, *, host: str) -> None:
    """Mark the slots that an ended attempt has on a host, where its processes will not go away."""
    session.execute(
        update(Slot)
        .where(Slot.attempt_id == attempt_id, Slot.host == host, Slot.quarantined_at.is_(None))
        .values(quarantined_at=func.now())
    )


@dataclass(frozen=True)
class Abandoned:
    """A live attempt that nobody looks after, and what to end it for."""

    lease: Lease
    host: str
    reason: EndReason
    error: str


def abandoned(session: Session, *, host_timeout_s: float, claim_timeout_s: float) -> list[Abandoned]:
    """Live attempts whose lease ran out, whose host is lost, or that no supervisor took."""
    host_lost = Host.heartbeat_at < func.now() - timedelta(seconds=host_timeout_s)
    unclaimed = Attempt.claimed_at.is_(None) & (Attempt.created_at < func.now() - timedelta(seconds=claim_timeout_s))
    expired = Attempt.lease_expires_at < func.now()
    rows = session.execute(
        select(Attempt, host_lost.label("host_lost"), unclaimed.label("unclaimed"))
        .join(Host, Host.name == Attempt.host)
        .where(Attempt.ended_at.is_(None), or_(unclaimed, expired))
    ).all()
    return [
        Abandoned(Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number), attempt.host, *why)
        for attempt, is_lost, is_unclaimed in rows
        for why in [_why_abandoned(attempt.host, is_lost, is_unclaimed)]
    ]


def fence_expired(session: Session, lease: Lease) -> None:
    """Hold the row of an abandoned attempt, unless it was renewed meanwhile. Raises `StaleLease`."""
    unclaimed_or_expired = or_(Attempt.claimed_at.is_(None), Attempt.lease_expires_at < func.now())
    if session.scalar(held(lease).where(unclaimed_or_expired).with_for_update()) is None:
        raise StaleLease(lease)


def _why_abandoned(host: str, is_lost: bool, is_unclaimed: bool) -> tuple[EndReason, str]:
    if is_lost:
        return EndReason.HOST_LOST, f"host {host} stopped sending heartbeats"
    if is_unclaimed:
        return EndReason.LAUNCH_FAILED, f"no supervisor started on {host}"
    return EndReason.LEASE_EXPIRED, f"the supervisor on {host} stopped renewing its lease"


def first_rank_started(session: Session, lease: Lease, at: datetime) -> None:
    """The attempt runs: its first rank wrote its first line at `at`, by its host's clock."""
    started_at = session.scalar(
        update(Attempt)
        .where(Attempt.id == lease.attempt_id)
        .values(started_at=func.greatest(at, Attempt.created_at))  # whatever that clock says
        .returning(Attempt.started_at)
    )
    transition(session, lease.job_id, Status.RUNNING, lease=lease, started_at=func.coalesce(Job.started_at, started_at))


def resumed(session: Session, lease: Lease, step: int) -> None:
    """The attempt goes on after `step`; what earlier attempts wrote beyond it is void."""
    session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(resumed_step=step))


def phases_ended(session: Session, lease: Lease, durations_s: dict[str, float]) -> None:
    """These phases of the attempt's set-up are over, on rank 0."""
    setup = Attempt.setup.op("||")(cast(storable(durations_s), JSONB))
    session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(setup=setup))
