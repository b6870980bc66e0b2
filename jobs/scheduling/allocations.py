"""The rows of allocations: what Slurm was asked for, for which attempts, and how far it is.

The dispatcher hands jobs to pools (`hand_to_pools`). The worker of a pool (`worker.slurm.desk`) asks Slurm, and stores
what it answers. When Slurm gives the nodes, it begins the attempt there (`begin`). Until then the job is queued, so a
cancel or a pause is as easy as for other queued jobs. Every function works in the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, cast, func, select, true, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Session

from jobs.db.tables import Allocation, Attempt, Host, Job
from jobs.lifecycle.rights_now import may_train
from jobs.lifecycle.store import Lease
from jobs.model.states import Status
from jobs.scheduling.decisions import PooledJob
from jobs.scheduling.placement_rows import is_alive
from jobs.scheduling.placing import place_on_nodes
from jobs.scheduling.pools import Shape

_FAILURES = 2  # on a node, until it is avoided
_FAILURES_COUNT_FOR = timedelta(hours=6)


@dataclass(frozen=True)
class LiveAllocation:
    """An allocation that is not over, and what became of its job meanwhile.

    `is_wanted`: its job waits for it. `attempt_id` is the attempt that began on it, `attempt_ended` whether that ended.
    """

    id: int
    job_id: str
    number: int
    shape: Shape
    slurm_job: int | None
    state: str | None
    reason: str | None
    expected_at: datetime | None
    failures: int
    problem: str | None
    tried_s: float | None  # ago
    time_limit_s: float | None
    priority: int
    is_wanted: bool
    attempt_id: int | None
    attempt_ended: bool

    @property
    def name(self) -> str:
        """Its name in Slurm."""
        return slurm_name(self.job_id, self.number)


def slurm_name(job_id: str, number: int) -> str:
    """The name in Slurm of the allocation for attempt `number` of a job. Nothing else in Slurm has it."""
    return f"hora-{job_id}-{number}"


@dataclass(frozen=True)
class PoolWait:
    """How far Slurm is with a queued job."""

    pool: str
    slurm_job: int | None
    state: str | None
    reason: str | None
    expected_at: datetime | None
    problem: str | None


def hand_to_pools(session: Session, pooled: Sequence[PooledJob]) -> None:
    """Note which queued jobs are handed to pools. Slurm is asked a moment later, by the worker of the pool."""
    if not pooled:
        return
    ids = cast([one.job_id for one in pooled], ARRAY(String))
    query = select(Job.id, Job.attempt).where(Job.id == func.any(ids), Job.status == Status.QUEUED)
    attempts = {job_id: attempt for job_id, attempt in session.execute(query)}  # noqa: C416 - a row is no pair
    rows = [
        {
            "job_id": one.job_id, "number": attempts[one.job_id] + 1, "pool": one.pool, "shape": asdict(one.shape),
            "gpus": one.shape.gpus,
        }
        for one in pooled
        if one.job_id in attempts
    ]  # fmt: skip
    if not rows:
        return
    new = insert(Allocation)
    # A row of this attempt that is over: Slurm gave it up before the attempt began.
    begun_again: dict[str, Any] = {**_FROM_NEW, **{name: new.excluded[name] for name in ("pool", "shape", "gpus")}}
    session.execute(
        new.on_conflict_do_update(
            index_elements=[Allocation.job_id, Allocation.number],
            set_=begun_again,
            where=Allocation.over_at.is_not(None),
        ),
        rows,
    )


_FROM_NEW: Mapping[str, Any] = {
    "created_at": func.now(), "tried_at": None, "failures": 0, "problem": None, "slurm_job": None, "state": None,
    "reason": None, "expected_at": None, "started_at": None, "nodes": None, "lost_nodes": None, "over_at": None,
}  # fmt: skip


def live_allocations(session: Session, pool: str) -> list[LiveAllocation]:
    """The allocations of a pool that are not over, sorted by the queue."""
    is_wanted = (
        (Job.status == Status.QUEUED) & (Job.attempt == Allocation.number - 1) & Job.cancel_requested_at.is_(None)
        & Job.paused_at.is_(None) & may_train(Job.owner, Job.project) & Host.drained_at.is_(None)
    )  # fmt: skip
    # While the worker of the pool was away, the attempt may have begun on a host.
    began_here = (
        (Attempt.job_id == Allocation.job_id) & (Attempt.number == Allocation.number)
        & (Attempt.host == Allocation.pool)
    )  # fmt: skip
    tried_s = func.extract("epoch", func.now() - Allocation.tried_at)
    time_limit_s = Job.spec["time_limit_s"].as_float()
    rows = session.execute(
        select(Allocation, is_wanted, tried_s, time_limit_s, Job.priority, Attempt.id, Attempt.ended_at)
        .join(Job, Job.id == Allocation.job_id)
        .join(Host, Host.name == Allocation.pool)
        .outerjoin(Attempt, began_here)
        .where(Allocation.pool == pool, Allocation.over_at.is_(None))
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
    )
    return [
        LiveAllocation(
            row.id, row.job_id, row.number, Shape(**row.shape), row.slurm_job, row.state, row.reason, row.expected_at,
            row.failures, row.problem, None if tried is None else float(tried), limit_s, priority,
            bool(wanted), attempt_id, ended_at is not None,
        )
        for row, wanted, tried, limit_s, priority, attempt_id, ended_at in rows
    ]  # fmt: skip


def note(session: Session, allocation_id: int, **values: Any) -> None:
    """Store how far an allocation is."""
    session.execute(update(Allocation).where(Allocation.id == allocation_id).values(values))


def tries(session: Session, allocation_id: int) -> None:
    """Store that Slurm is asked now. The answer may be lost."""
    note(session, allocation_id, tried_at=func.now(), problem=None)


def taken(session: Session, allocation_id: int, slurm_job: int) -> None:
    """Store that Slurm has it."""
    note(session, allocation_id, slurm_job=slurm_job, problem=None)


def failed(session: Session, allocation_id: int, problem: str) -> None:
    """Store why Slurm has not got it, or has given it up before the attempt began. It is asked again later."""
    given_up = {**_FROM_NEW, "failures": Allocation.failures + 1, "problem": problem, "tried_at": func.now()}
    del given_up["created_at"]
    note(session, allocation_id, **given_up)


def over(session: Session, allocation_id: int) -> None:
    """Store that Slurm has nothing left of it."""
    note(session, allocation_id, over_at=func.now())


def blame(session: Session, lease: Lease, node: str) -> None:
    """Store on which node an attempt failed, unless Slurm's answer has told more."""
    of_attempt = (Allocation.job_id == lease.job_id) & (Allocation.number == lease.number)
    session.execute(update(Allocation).where(of_attempt, Allocation.lost_nodes.is_(None)).values(lost_nodes=[node]))


def failing_nodes(session: Session, pool: str, *, for_job: str | None = None) -> list[str]:
    """The nodes of a pool on which attempts of several jobs failed lately, the worst first.

    With `for_job`: those on which several attempts of this job failed. They need not be bad for other jobs.
    """
    nodes = func.jsonb_array_elements_text(Allocation.lost_nodes).table_valued("node").render_derived()
    failures = func.count() if for_job is not None else func.count(Allocation.job_id.distinct())
    rows = session.scalars(
        select(nodes.c.node)
        .select_from(Allocation)
        .join(nodes, true())
        .where(
            Allocation.pool == pool, Allocation.lost_nodes.is_not(None),
            func.coalesce(Allocation.over_at, func.now()) > func.now() - _FAILURES_COUNT_FOR,
            true() if for_job is None else Allocation.job_id == for_job,
        )
        .group_by(nodes.c.node)
        .having(failures >= _FAILURES)
        .order_by(failures.desc(), nodes.c.node)
    )  # fmt: skip
    return list(rows)


def begin(
    session: Session, allocation: LiveAllocation, nodes: Sequence[str], *, login: str, lease_s: float
) -> Lease | None:
    """Begin the attempt on the nodes that Slurm gave. None if its job does not wait for them any more.

    `login` is the machine on which its supervisor runs.
    """
    row = session.get_one(Allocation, allocation.id)
    shape = allocation.shape
    lease = place_on_nodes(
        session, allocation.job_id, allocation.number, row.pool, nodes,
        ranks=shape.ranks, kind=shape.kind, device=shape.gpu_type or shape.kind, lease_s=lease_s,
    )  # fmt: skip
    if lease is not None:
        handed = update(Attempt).where(Attempt.id == lease.attempt_id)
        session.execute(handed.values(handed_at=row.created_at))
        note(session, allocation.id, nodes=list(nodes), login=login, failures=0, started_at=func.now())
    return lease


def allocation_of(session: Session, attempt: Attempt) -> Allocation | None:
    """The allocation on which an attempt began. None if it is not in a pool."""
    of_attempt = (Allocation.job_id == attempt.job_id) & (Allocation.number == attempt.number)
    return session.scalar(select(Allocation).where(of_attempt, Allocation.pool == attempt.host))


def pool_waits(session: Session, job_ids: Sequence[str], *, host_timeout_s: float) -> dict[str, PoolWait]:
    """How far Slurm is with those of these queued jobs that were handed to a pool whose worker lives."""
    rows = session.scalars(
        select(Allocation)
        .join(Job, (Job.id == Allocation.job_id) & (Job.attempt == Allocation.number - 1))
        .join(Host, Host.name == Allocation.pool)
        .where(Allocation.over_at.is_(None), _among(job_ids), is_alive(host_timeout_s))
    )
    return {
        row.job_id: PoolWait(row.pool, row.slurm_job, row.state, row.reason, row.expected_at, row.problem)
        for row in rows
    }


def _among(job_ids: Sequence[str]) -> ColumnElement[bool]:
    return Allocation.job_id == func.any(cast([*job_ids], ARRAY(String)))
