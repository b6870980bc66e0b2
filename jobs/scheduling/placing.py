"""Lease slots to queued jobs, and preempt attempts. Called by the dispatcher, a drain, and a worker that shuts down.

Every function works in the caller's transaction; the caller commits. `jobs.lifecycle.leases` does everything with
the attempts after that.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache

from sqlalchemy import BigInteger, Integer, Select, String, bindparam, cast, func, insert, literal, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, Job, JobEvent, Slot
from jobs.lifecycle.rights_now import may_train
from jobs.lifecycle.store import Lease, move
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EventKind, Status
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.placement_rows import IS_FREE

_NEXT_NUMBER = Job.attempt + 1
_MAY_START = (
    Job.cancel_requested_at.is_(None), Job.paused_at.is_(None), ~Job.waits_for_jobs, may_train(Job.owner, Job.project)
)  # fmt: skip


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
    numbers = move(session, list(possible), Status.LAUNCHING, *_MAY_START, attempt=_NEXT_NUMBER, not_before=None)
    if not numbers:
        return []
    placed = [possible[job_id] for job_id in possible if job_id in numbers]
    leases = _begin_attempts(session, placed, numbers, lease_s=lease_s)
    _lease_slots(session, placed, leases)
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
    waits_for_it = Job.attempt == number - 1
    numbers = move(session, [job_id], Status.LAUNCHING, waits_for_it, *_MAY_START, attempt=number, not_before=None)
    if not numbers:
        return None
    first = session.scalar(select(func.coalesce(func.max(Slot.index), -1) + 1).where(Slot.host == pool)) or 0
    shares = [
        Share(node, tuple(range(first + place * ranks, first + (place + 1) * ranks)), (device,) * ranks)
        for place, node in enumerate(nodes)
    ]
    placement = Placement(job_id, tuple(shares), pool=pool)
    (lease,) = _begin_attempts(session, [placement], numbers, lease_s=lease_s)
    slots = [
        {"host": pool, "index": index, "kind": kind, "name": device, "attempt_id": lease.attempt_id, "rank": rank}
        for rank, (_, index) in enumerate(placement.slots)
    ]
    session.execute(insert(Slot), slots)
    return lease


def _lock_free(session: Session, slots: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of the slots that can be leased. They are locked until the commit, and their hosts are locked before them.

    So a drain of a host sees every attempt that was placed there before it.
    """
    open_hosts = set(session.scalars(_LOCK_HOSTS, {"hosts": list({host for host, _ in slots})}))
    candidates = [(host, index) for host, index in slots if host in open_hosts]
    values = {"hosts": [host for host, _ in candidates], "indices": [index for _, index in candidates]}
    return {(host, index) for host, index in session.execute(_lock_slots(), values)}


_LOCK_HOSTS = text("SELECT name FROM hosts WHERE name = any(:hosts) AND drained_at IS NULL ORDER BY name FOR SHARE")


@cache
def _lock_slots() -> Select[str, int]:
    candidates = (
        func.unnest(bindparam("hosts", type_=ARRAY(String)), bindparam("indices", type_=ARRAY(Integer)))
        .table_valued("host", "index", name="candidates")
        .render_derived()
    )
    return (
        select(Slot.host, Slot.index)
        .join(candidates, (Slot.host == candidates.c.host) & (Slot.index == candidates.c.index))
        .where(IS_FREE)
        .order_by(Slot.host, Slot.index)
        .with_for_update(of=Slot)
    )


def _begin_attempts(
    session: Session, placed: Sequence[Placement], numbers: Mapping[str, int], *, lease_s: float
) -> list[Lease]:
    """Write the attempts of jobs that were moved to launching, each with its event."""
    values = {
        "job_ids": [placement.job_id for placement in placed],
        "numbers": [numbers[placement.job_id] for placement in placed],
        "hosts": [placement.lead for placement in placed],
        "shares": [json.dumps(placement.to_json()) for placement in placed],
        "gpus": [placement.gpus for placement in placed],
        "due_s": [placement.due_s for placement in placed],
        "lease": timedelta(seconds=lease_s),
    }
    rows = session.execute(_BEGIN_ATTEMPTS, values)
    leases = {row.job_id: Lease(row.id, str(row.token), row.job_id, row.number) for row in rows}
    return [leases[placement.job_id] for placement in placed]


_BEGIN_ATTEMPTS = text("""
    WITH begun AS (
        INSERT INTO attempts (job_id, number, host, shares, gpus, queued_at, due_at, lease_expires_at)
        SELECT placed.job_id, placed.number, placed.host, placed.shares, placed.gpus, jobs.queued_at,
            now() + placed.due_s * interval '1 second', now() + :lease
        FROM unnest(
            CAST(:job_ids AS varchar[]), CAST(:numbers AS int[]), CAST(:hosts AS varchar[]), CAST(:shares AS jsonb[]),
            CAST(:gpus AS int[]), CAST(:due_s AS float8[])
        ) WITH ORDINALITY AS placed (job_id, number, host, shares, gpus, due_s, place)
        JOIN jobs ON jobs.id = placed.job_id
        ORDER BY place
        RETURNING id, token, job_id, number, shares
    ), told AS (
        INSERT INTO job_events (job_id, kind, attempt, data)
        SELECT job_id, 'placed', number, jsonb_build_object('shares', shares) FROM begun ORDER BY id
    )
    SELECT id, token, job_id, number FROM begun
""")


def _lease_slots(session: Session, placed: Sequence[Placement], leases: Sequence[Lease]) -> None:
    taken = [
        (host, index, lease.attempt_id, rank)
        for placement, lease in zip(placed, leases, strict=True)
        for rank, (host, index) in enumerate(placement.slots)
    ]
    hosts, indices, attempts, ranks = map(list, zip(*taken, strict=True))
    session.execute(_LEASE_SLOTS, {"hosts": hosts, "indices": indices, "attempts": attempts, "ranks": ranks})


_LEASE_SLOTS = text("""
    UPDATE slots SET attempt_id = taken.attempt_id, rank = taken.rank
    FROM unnest(
        CAST(:hosts AS varchar[]), CAST(:indices AS int[]), CAST(:attempts AS bigint[]), CAST(:ranks AS int[])
    ) AS taken (host, index, attempt_id, rank)
    WHERE slots.host = taken.host AND slots.index = taken.index
""")


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
