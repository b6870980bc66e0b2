"""A queued job's position in the queue, and what it waits for. Called by the api for one job or a page of jobs.

It reads the slots, and what the last pass of the dispatcher kept and preempted. It makes no decisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import AccountStanding, Attempt, Job
from jobs.lifecycle.idle import why_paused
from jobs.lifecycle.rights_now import obstacle_to_training
from jobs.lifecycle.waits import awaited_by
from jobs.model.preemption import PreemptionCause
from jobs.model.states import Status
from jobs.scheduling.allocations import pool_waits
from jobs.scheduling.forecast_rows import expected_starts_s
from jobs.scheduling.placement_rows import (
    IN_QUEUE,
    PAUSE_S,
    READY,
    goes_on_if_full,
    queued_job_of,
    registered_hosts,
    registered_pools,
    select_queued_jobs,
)
from jobs.scheduling.queue_places import QueueSequence
from jobs.scheduling.queue_reasons import WaitsFor, explain
from jobs.scheduling.queue_turns import turn_text
from jobs.scheduling.quotas import active_quotas
from jobs.scheduling.quotas import most_stored as most_stored_in

_PAUSE = PAUSE_S.label("pause_s")
_MOST_COUNTED = 20_000  # jobs of projects with a quota, from the head of the queue


@dataclass(frozen=True)
class Standing:
    """A queued job's position in the queue, from 1, and why it waits.

    A paused job has no position, nor has one that waits for other jobs, nor one whose owner may not submit it any more.
    `starts_in_s`: as `forecast_rows.expected_starts_s` says; None: unknown.
    """

    position: int | None
    reason: str
    starts_in_s: float | None = None


def standings(
    session: Session, job_ids: Sequence[str], *, host_timeout_s: float, sequence: QueueSequence | None = None
) -> dict[str, Standing]:
    """The standing of each of these jobs that is queued, by id. `sequence` is the queue, if it was read before."""
    if not job_ids:
        return {}
    query = select_queued_jobs().where(Job.id.in_(job_ids), Job.status == Status.QUEUED)
    obstacle = obstacle_to_training(Job.owner, Job.project).label("obstacle")
    query = query.add_columns(Job.paused_at, Job.attempt, Job.idle, Job.waits_for_jobs, _PAUSE, obstacle)
    rows = session.execute(query).mappings().all()
    if not rows:
        return {}
    sequence = sequence or QueueSequence(session)
    places, leaving = sequence.places(job_ids), _leaving(session, job_ids)
    quotas = active_quotas(session, among={row["project"] for row in rows})
    most_stored = {name: most_stored_in(session, name) for name, quota in quotas.items() if quota.is_full}
    limited = [name for name, quota in quotas.items() if quota.max_slots is not None and quota.slots_left]
    ahead = _ahead(session, job_ids, limited, full=list(most_stored))
    hosts = registered_hosts(session, host_timeout_s=host_timeout_s)
    pools = registered_pools(session, host_timeout_s=host_timeout_s)
    others = awaited_by(session, [row["id"] for row in rows if row["waits_for_jobs"]])
    in_slurm = pool_waits(session, job_ids, host_timeout_s=host_timeout_s) if pools else {}
    starts_s = expected_starts_s(session, job_ids)
    standing_of = {}
    for row in rows:
        job = queued_job_of(row)
        place = places.get(job.job_id)
        waits_for = WaitsFor(
            row["paused_at"] is not None, why_paused(row["idle"], attempt=row["attempt"]), row["obstacle"],
            others.get(job.job_id, ()),
            row["pause_s"], quotas.get(job.project), job.keeps_files, ahead.get(job.job_id, _MOST_COUNTED),
            leaving.get(job.job_id, ()), most_stored.get(job.project), in_slurm.get(job.job_id),
            None if place is None else turn_text(sequence, place, job.account),
        )  # fmt: skip
        reason = explain(job.job_id, job.request, hosts, waits_for, pools)
        number = None if place is None else place.number
        standing_of[job.job_id] = Standing(number, reason, starts_s.get(job.job_id))
    return standing_of


def _ahead(
    session: Session, job_ids: Sequence[str], projects: Sequence[str], *, full: Sequence[str]
) -> Mapping[str, int]:
    """For each of these jobs: the number of slots for which earlier jobs of its project wait.

    Jobs behind the first `_MOST_COUNTED` are left out, and so are new jobs of the projects that are `full`.
    """
    if not projects:
        return {}
    is_over = func.coalesce(AccountStanding.is_over, False)
    used = func.coalesce(AccountStanding.used_part / func.greatest(AccountStanding.entitled_part, 1e-9), 0.0)
    level = case((AccountStanding.project.is_not(None), Job.level), else_=0)
    order = (
        Job.priority.desc(), is_over, case((is_over, 0), else_=level), used, level, Job.created_at, Job.id,
    )  # fmt: skip
    first = (
        select(Job.id, Job.project, Job.gpus, func.row_number().over(order_by=order).label("place"))
        .outerjoin(AccountStanding, (AccountStanding.project == Job.project) & (AccountStanding.user_name == Job.owner))
        .where(IN_QUEUE, READY, Job.project.in_(projects), goes_on_if_full(full))
        .order_by(*order)
        .limit(_MOST_COUNTED)
        .subquery()
    )
    slots_before = func.sum(first.c.gpus).over(partition_by=first.c.project, order_by=first.c.place) - first.c.gpus
    queues = select(first.c.id, slots_before.label("ahead")).subquery()
    rows = session.execute(select(queues.c.id, queues.c.ahead).where(queues.c.id.in_(job_ids)))
    return {job_id: ahead for job_id, ahead in rows}  # noqa: C416 - a row is no pair to the type checker


def _leaving(session: Session, job_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The jobs whose attempts the dispatcher preempts, by the job that needs their slots."""
    causes = [PreemptionCause.for_job(job_id) for job_id in job_ids]
    rows = session.execute(
        select(Attempt.preemption, Attempt.job_id)
        .where(Attempt.ended_at.is_(None), Attempt.preemption.in_(causes))
        .order_by(Attempt.id)
    )
    leaving: dict[str, list[str]] = {}
    for cause, job_id in rows:
        if cause is not None and cause.job is not None:  # the query ensures this, but the type checker cannot see it
            leaving.setdefault(cause.job, []).append(job_id)
    return leaving
