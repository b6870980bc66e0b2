"""Where a queued job stands in the queue, and what it waits for. Called by the api for one job or a page of them.

It looks at the slots and at what the last pass of the dispatcher kept and asked for; it decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job
from jobs.model.preemption import PreemptionCause
from jobs.model.states import Status
from jobs.scheduling.allowances import Quota
from jobs.scheduling.fitting import Cluster, Wish
from jobs.scheduling.placement_rows import (
    IN_QUEUE,
    QUEUE_ORDER,
    READY,
    KnownHost,
    known_hosts,
    waiting_jobs,
    waiting_of,
)
from jobs.scheduling.quotas import limited


@dataclass(frozen=True)
class Standing:
    """A queued job's place in the queue, from 1, and in a sentence why it waits. A paused job has no place."""

    position: int | None
    reason: str


@dataclass(frozen=True)
class WaitsFor:
    """What a queued job waits for besides slots."""

    paused: bool = False
    pause_s: float = 0.0  # what is left of its back-off
    quota: Quota | None = None  # of its project
    ahead: int = 0  # slots that jobs of its project want which are before it, where that has a quota of slots
    leaving: Sequence[str] = ()  # the jobs that were asked to make room for it


def standings(session: Session, job_ids: Sequence[str], *, host_timeout_s: float) -> dict[str, Standing]:
    """Where those of the jobs that are queued stand, by id."""
    if not job_ids:
        return {}
    pause_s = cast(func.extract("epoch", Job.not_before - func.now()), Float(53)).label("pause_s")
    wanted = waiting_jobs().where(Job.id.in_(job_ids), Job.status == Status.QUEUED)
    rows = session.execute(wanted.add_columns(Job.paused_at, pause_s)).mappings().all()
    if not rows:
        return {}
    positions, leaving = _positions(session, job_ids), _leaving(session, job_ids)
    quotas = limited(session, among={row["project"] for row in rows})
    ahead = _ahead(session, job_ids, [name for name, quota in quotas.items() if quota.max_slots is not None])
    hosts = known_hosts(session, host_timeout_s=host_timeout_s)
    found = {}
    for row in rows:
        job = waiting_of(row)
        waits_for = WaitsFor(
            row["paused_at"] is not None, row["pause_s"] or 0.0, quotas.get(job.project), ahead.get(job.job_id, 0),
            leaving.get(job.job_id, ()),
        )  # fmt: skip
        reason = explain(job.job_id, job.wish, hosts, waits_for)
        found[job.job_id] = Standing(positions.get(job.job_id), reason)
    return found


def _positions(session: Session, job_ids: Sequence[str]) -> Mapping[str, int]:
    places = select(Job.id, func.row_number().over(order_by=QUEUE_ORDER).label("place")).where(IN_QUEUE).subquery()
    rows = session.execute(select(places.c.id, places.c.place).where(places.c.id.in_(job_ids)))
    return {job_id: place for job_id, place in rows}  # noqa: C416 - a row is no pair to the type checker


def _ahead(session: Session, job_ids: Sequence[str], projects: Sequence[str]) -> Mapping[str, int]:
    """How many slots the jobs want that are before these in the queues of their projects."""
    if not projects:
        return {}
    wanted = func.sum(Job.gpus).over(partition_by=Job.project, order_by=QUEUE_ORDER) - Job.gpus
    queues = select(Job.id, wanted.label("ahead")).where(IN_QUEUE, READY, Job.project.in_(projects)).subquery()
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
        if cause is not None and cause.job is not None:  # which the query has checked, but the type checker cannot see
            leaving.setdefault(cause.job, []).append(job_id)
    return leaving


def explain(job_id: str, wish: Wish, hosts: Sequence[KnownHost], waits_for: WaitsFor) -> str:
    """Why a queued job does not run, in a sentence without its full stop."""
    if waits_for.paused:
        return "paused"
    if waits_for.pause_s > 0:
        return f"waits {waits_for.pause_s:.0f} s more after a failed attempt"
    too_small = _too_small(wish, hosts)
    if too_small is not None:
        return too_small
    over_quota = waits_for.quota and _over_quota(wish, waits_for.quota, waits_for.ahead)
    if over_quota:
        return over_quota
    if waits_for.leaving:
        several = "jobs" if len(waits_for.leaving) > 1 else "job"
        return f"waits for {several} {' and '.join(waits_for.leaving)} to save and make room"
    return _too_full(job_id, wish, hosts) or "is next"


def _too_small(wish: Wish, hosts: Sequence[KnownHost]) -> str | None:
    """Why the hosts that are there now could not hold the job if they were empty."""
    if not any(host.alive for host in hosts):
        return "no host is alive"
    cluster, needed = _in_use(hosts), _needed(wish)
    if not cluster.kinds(wish.device):
        drained = Cluster(host.slots for host in hosts if host.alive).kinds(wish.device)
        return f"needs {needed}; {'every host that has any is drained' if drained else 'no host that is alive has any'}"
    if cluster.attainable(wish) is not None:
        return None
    alone, together = cluster.most(wish, cluster.capacity)
    if together is None:
        return f"needs {needed} on one host; the largest host has {alone}"
    if together < wish.gpus:
        return f"needs {needed}; the hosts that work together have {together}"
    return f"needs {needed}, as many on each of its hosts; of {together} at most {alone} are on one host"


def _over_quota(wish: Wish, quota: Quota, ahead: int) -> str | None:
    """What keeps the job from being placed whatever slots are free."""
    if quota.is_used_up:
        hours = f"{_figure(quota.gpu_hours)} of {_figure(quota.max_gpu_hours or 0.0)} GPU-hours this month"
        return f"its project {quota.project} used {hours}; it goes on at {quota.renews_at:%Y-%m-%d %H:%M} UTC"
    if quota.max_slots is None:
        return None
    if quota.is_less_than(wish.gpus):
        return f"needs {_needed(wish)}; its project {quota.project} may have {quota.max_slots} at once"
    in_use = f"its project {quota.project} has {quota.slots} of {quota.max_slots} slots in use"
    left = max(quota.max_slots - quota.slots, 0)
    if left == 0:
        return in_use
    if wish.gpus > left:
        return f"needs {_needed(wish)}; {in_use}"
    return f"{in_use}, and others of its jobs are before it" if ahead + wish.gpus > left else None


def _too_full(job_id: str, wish: Wish, hosts: Sequence[KnownHost]) -> str | None:
    """What keeps the job from being placed now on hosts that could hold it."""
    cluster = _in_use(hosts)
    wish = cluster.attainable(wish) or wish
    shares = cluster.fit(wish, cluster.free)
    if shares is not None:
        return _kept(job_id, wish, hosts, cluster)
    alone, together = cluster.most(wish, cluster.free)
    if together is None and wish.gpus > 1:
        return f"needs {_needed(wish)} on one host; best host has {alone} free"
    free = alone if together is None else together
    if free < wish.gpus:
        return f"needs {_needed(wish)}; {_are(free)} free"
    return f"needs {_needed(wish)}, as many on each of its hosts; {_are(free)} free, at most {alone} on one host"


def _kept(job_id: str, wish: Wish, hosts: Sequence[KnownHost], cluster: Cluster) -> str | None:
    """For whom the free slots are kept that the job needs."""
    kept = {host.slots.host: host.kept_for for host in hosts if host.in_use and host.kept_for not in (None, job_id)}
    if cluster.fit(wish, {host: 0 if host in kept else free for host, free in cluster.free.items()}) is not None:
        return None
    before = kept[max(kept, key=lambda host: cluster.free[host])]
    free = sum(cluster.free[host] for host, whose in kept.items() if whose == before)
    return f"{_are(free, 'slot')} free, but kept for job {before}, which is before it"


def _in_use(hosts: Sequence[KnownHost]) -> Cluster:
    return Cluster(host.slots for host in hosts if host.in_use)


def _needed(wish: Wish) -> str:
    kind = "" if wish.device == "auto" else f"{wish.device} "
    return f"{wish.gpus} {kind}{'slot' if wish.gpus == 1 else 'slots'}"


def _are(count: int, what: str = "") -> str:
    number = str(count or "none")
    noun = f" {what}{'' if count == 1 else 's'}" if what else ""
    return f"{number}{noun} {'is' if count <= 1 else 'are'}"


def _figure(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
