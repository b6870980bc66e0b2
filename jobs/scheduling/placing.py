"""Lease slots to queued jobs, and preempt attempts. Called by the dispatcher, a drain, and a worker that shuts down.

Every function works in the caller's transaction; the caller commits. `jobs.lifecycle.leases` does everything with
the attempts after that.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import BigInteger, Float, Integer, String, bindparam, cast, func, insert, literal, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, Job, JobEvent, Slot
from jobs.lifecycle.rights_now import may_train
from jobs.lifecycle.store import Lease, move
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EventKind, Status
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.placement_rows import IS_FREE


def place(session: Session, placements: Sequence[Placement], *, lease_s: float) -> list[Lease]:
    """Lease slots to queued jobs. Returns the leases of the jobs that got all their slots.

    A job is left out if it no longer waits, if it waits for other jobs, if its owner may no longer submit it, if one of
    its slots is no longer free, or if one of its hosts is drained.
    The lowest rank goes to the first slot of the first share.
    """
    if not placements:
        return []
    free = _lock_free(session, [slot for placement in placements for slot in placement.slots])
    possible = {}
    for placement in placements:
        slots = set(placement.slots)
        if slots <= free and placement.job_id not in possible:
            free -= slots
            possible[placement.job_id] = placement
    numbers = move(
        session, list(possible), Status.LAUNCHING,
        Job.cancel_requested_at.is_(None), Job.paused_at.is_(None), ~Job.waits_for_jobs,
        may_train(Job.owner, Job.project),
        attempt=Job.attempt + 1, not_before=None,
    )  # fmt: skip
    if not numbers:
        return []
    placed = [possible[job_id] for job_id in possible if job_id in numbers]
    leases = _insert_attempts(session, placed, numbers, lease_s=lease_s)
    _lease_slots(session, placed, leases)
    _add_events(session, placed, leases)
    return leases


def place_on_nodes(
    session: Session,
    job_id: str,
    number: int,
    pool: str,
    nodes: Sequence[str],
    *,
    ranks: int,
    kind: str,
    device: str,
    lease_s: float,
) -> Lease | None:
    """Begin attempt `number` of a queued job in a pool, with so many ranks on each of the nodes that Slurm gave.

    None if the job does not wait for that any more, or the pool is drained. The pool gets a slot for each rank. They go
    when they are released.
    """
    open_pool = select(Host.name).where(Host.name == pool, Host.drained_at.is_(None)).with_for_update()
    if session.scalar(open_pool) is None:
        return None
    numbers = move(
        session, [job_id], Status.LAUNCHING,
        Job.attempt == number - 1, Job.cancel_requested_at.is_(None), Job.paused_at.is_(None), ~Job.waits_for_jobs,
        may_train(Job.owner, Job.project),
        attempt=number, not_before=None,
    )  # fmt: skip
    if not numbers:
        return None
    first = session.scalar(select(func.coalesce(func.max(Slot.index), -1) + 1).where(Slot.host == pool)) or 0
    shares = [
        Share(node, tuple(range(first + place * ranks, first + (place + 1) * ranks)), (device,) * ranks)
        for place, node in enumerate(nodes)
    ]
    placement = Placement(job_id, tuple(shares), pool=pool)
    (lease,) = _insert_attempts(session, [placement], numbers, lease_s=lease_s)
    slots = [
        {"host": pool, "index": index, "kind": kind, "name": device, "attempt_id": lease.attempt_id, "rank": rank}
        for rank, (_, index) in enumerate(placement.slots)
    ]
    session.execute(insert(Slot), slots)
    _add_events(session, [placement], [lease])
    return lease


def _add_events(session: Session, placed: Sequence[Placement], leases: Sequence[Lease]) -> None:
    events = [
        {
            "job_id": lease.job_id,
            "kind": EventKind.PLACED,
            "attempt": lease.number,
            "data": {"shares": placement.to_json()},
        }
        for placement, lease in zip(placed, leases, strict=True)
    ]
    session.execute(insert(JobEvent), events)


def _lock_free(session: Session, slots: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of the slots that can be leased. They are locked until the commit, and their hosts are locked before them.

    So a drain of a host sees every attempt that was placed there before it.
    """
    hosts = session.scalars(
        select(Host.name)
        .where(Host.name.in_({host for host, _ in slots}), Host.drained_at.is_(None))
        .order_by(Host.name)
        .with_for_update(read=True)
    ).all()
    candidates = (
        func.unnest(
            cast([host for host, _ in slots], ARRAY(String)), cast([index for _, index in slots], ARRAY(Integer))
        )
        .table_valued("host", "index", name="candidates")
        .render_derived()
    )
    rows = session.execute(
        select(Slot.host, Slot.index)
        .join(candidates, (Slot.host == candidates.c.host) & (Slot.index == candidates.c.index))
        .where(Slot.host.in_(hosts))
        .where(IS_FREE)
        .order_by(Slot.host, Slot.index)
        .with_for_update(of=Slot)
    )
    return {(host, index) for host, index in rows}


def _insert_attempts(
    session: Session, placed: Sequence[Placement], numbers: Mapping[str, int], *, lease_s: float
) -> list[Lease]:
    waiting = session.execute(select(Job.id, Job.queued_at).where(Job.id == func.any(cast([*numbers], ARRAY(String)))))
    queued_at = {row.id: row.queued_at for row in waiting}
    rows = session.execute(
        insert(Attempt)
        .values(
            lease_expires_at=func.now() + timedelta(seconds=lease_s),
            due_at=func.now() + bindparam("due_s", type_=Float) * timedelta(seconds=1),
        )
        .returning(Attempt.id, Attempt.token, Attempt.job_id, Attempt.number),
        [
            {
                "job_id": placement.job_id,
                "number": numbers[placement.job_id],
                "host": placement.lead,
                "shares": placement.to_json(),
                "gpus": placement.gpus,
                "queued_at": queued_at[placement.job_id],
                "due_s": placement.due_s,
            }
            for placement in placed
        ],
    )
    leases = {row.job_id: Lease(row.id, str(row.token), row.job_id, row.number) for row in rows}
    return [leases[placement.job_id] for placement in placed]


def _lease_slots(session: Session, placed: Sequence[Placement], leases: Sequence[Lease]) -> None:
    taken = [
        (host, index, lease.attempt_id, rank)
        for placement, lease in zip(placed, leases, strict=True)
        for rank, (host, index) in enumerate(placement.slots)
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


def request_preemption(session: Session, attempt_ids: Sequence[int], cause: PreemptionCause) -> None:
    """Ask live attempts to save and release their slots. Each is asked once. Their jobs go back to the queue."""
    asked = (
        update(Attempt)
        .where(
            Attempt.id == func.any(cast([*attempt_ids], ARRAY(BigInteger))), Attempt.ended_at.is_(None),
            Attempt.preempt_requested_at.is_(None),
        )
        .values(preempt_requested_at=func.now(), preemption=cause)
        .returning(Attempt.job_id, Attempt.number)
        .cte("asked")
    )  # fmt: skip
    kind, data = literal(EventKind.PREEMPT_REQUESTED, JobEvent.kind.type), {"for": str(cause), "cause": cause.to_json()}
    events = select(asked.c.job_id, kind, asked.c.number, literal(data, JobEvent.data.type))
    session.execute(insert(JobEvent).from_select(["job_id", "kind", "attempt", "data"], events))
