"""A queued job's position in the queue, and what it waits for. Called by the api for one job or a page of jobs.

It reads the slots, and what the last pass of the dispatcher kept and preempted. It makes no decisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import SQLColumnExpression, case, exists, func, select
from sqlalchemy.orm import Session

from jobs.db.tables import AccountStanding, Attempt, Job
from jobs.lifecycle.idle import why_paused
from jobs.lifecycle.rights_now import obstacle_to_training
from jobs.lifecycle.waits import Awaited, awaited_by
from jobs.model.preemption import PreemptionCause
from jobs.model.states import Status
from jobs.scheduling.allocations import PoolWait, pool_waits
from jobs.scheduling.allowances import Quota
from jobs.scheduling.fitting import Cluster, SlotRequest
from jobs.scheduling.forecast_rows import expected_starts_s
from jobs.scheduling.placement_rows import (
    IN_QUEUE,
    PAUSE_S,
    QUEUE_ORDER,
    READY,
    RegisteredHost,
    RegisteredPool,
    goes_on_if_full,
    kind_for_auto,
    queued_job_of,
    registered_hosts,
    registered_pools,
    select_queued_jobs,
)
from jobs.scheduling.pool_reasons import waits_in_slurm, why_no_pool
from jobs.scheduling.pools import first_that_fits
from jobs.scheduling.quotas import active_quotas
from jobs.scheduling.quotas import most_stored as most_stored_in
from jobs.scheduling.shortage import no_such_gpu, other_ways, slots_text

_MOST_NAMED = 3  # hosts without space in one sentence
_PAUSE = PAUSE_S.label("pause_s")
MOST_COUNTED = 20_000  # jobs from the head of the queue: to count more would slow everybody's lists

_Order = Sequence[SQLColumnExpression[Any]]


@dataclass(frozen=True)
class Standing:
    """A queued job's position in the queue, from 1, and why it waits.

    A paused job has no position, nor has one that waits for other jobs, nor one whose owner may not submit it any more,
    nor a job behind the first `MOST_COUNTED`. `starts_in_s`: as `forecast_rows.expected_starts_s` says; None: unknown.
    """

    position: int | None
    reason: str
    starts_in_s: float | None = None


@dataclass(frozen=True)
class WaitsFor:
    """What a queued job waits for besides slots."""

    paused: bool = False
    why_paused: str | None = None  # nobody used its slots; None: a person paused it
    obstacle: str | None = None  # why its owner may not submit it now
    others: Sequence[Awaited] = ()  # the jobs that it waits for
    pause_s: float = 0.0  # the rest of its back-off
    quota: Quota | None = None  # that of its project
    keeps_files: bool = False  # it goes on even if its project is full
    ahead: int = 0  # slots for which earlier jobs of its project wait, if the project has a quota of slots
    leaving: Sequence[str] = ()  # the jobs that are preempted for it
    most_stored: tuple[str, float] | None = None  # in a full project: the ended job that keeps the most, and GB
    in_slurm: PoolWait | None = None


def standings(session: Session, job_ids: Sequence[str], *, host_timeout_s: float) -> dict[str, Standing]:
    """The standing of each of these jobs that is queued, by id."""
    if not job_ids:
        return {}
    query = select_queued_jobs().where(Job.id.in_(job_ids), Job.status == Status.QUEUED)
    obstacle = obstacle_to_training(Job.owner, Job.project).label("obstacle")
    query = query.add_columns(Job.paused_at, Job.idle, Job.waits_for_jobs, _PAUSE, obstacle)
    rows = session.execute(query).mappings().all()
    if not rows:
        return {}
    order = _order(session)
    positions, leaving = _positions(session, job_ids, order), _leaving(session, job_ids)
    quotas = active_quotas(session, among={row["project"] for row in rows})
    most_stored = {name: most_stored_in(session, name) for name, quota in quotas.items() if quota.is_full}
    limited = [name for name, quota in quotas.items() if quota.max_slots is not None]
    ahead = _ahead(session, job_ids, limited, order, full=list(most_stored))
    hosts = registered_hosts(session, host_timeout_s=host_timeout_s)
    pools = registered_pools(session, host_timeout_s=host_timeout_s)
    others = awaited_by(session, [row["id"] for row in rows if row["waits_for_jobs"]])
    in_slurm = pool_waits(session, job_ids, host_timeout_s=host_timeout_s) if pools else {}
    starts_s = expected_starts_s(session, job_ids)
    standing_of = {}
    for row in rows:
        job = queued_job_of(row)
        waits_for = WaitsFor(
            row["paused_at"] is not None, why_paused(row["idle"]), row["obstacle"], others.get(job.job_id, ()),
            row["pause_s"], quotas.get(job.project), job.keeps_files, ahead.get(job.job_id, MOST_COUNTED),
            leaving.get(job.job_id, ()), most_stored.get(job.project), in_slurm.get(job.job_id),
        )  # fmt: skip
        reason = explain(job.job_id, job.request, hosts, waits_for, pools)
        standing_of[job.job_id] = Standing(positions.get(job.job_id), reason, starts_s.get(job.job_id))
    return standing_of


def _order(session: Session) -> _Order:
    """The sequence of the queue. In a fair queue, the oldest jobs that waited too long may come before it says."""
    if session.scalar(select(exists(AccountStanding))):
        is_its_own = (AccountStanding.project == Job.project, AccountStanding.user_name == Job.owner)
        over = exists().where(*is_its_own, AccountStanding.is_over)
        use = (
            select(AccountStanding.used_part / func.greatest(AccountStanding.entitled_part, 1e-9))
            .where(*is_its_own)
            .scalar_subquery()
        )
        used = func.coalesce(use, 0.0)  # an account of which no pass knows yet has used nothing lately
        level_if_over = case((over, Job.level), else_=0)
        return Job.priority.desc(), over, Job.level - level_if_over, used, Job.level, Job.created_at, Job.id
    return QUEUE_ORDER


def _positions(session: Session, job_ids: Sequence[str], order: _Order) -> Mapping[str, int]:
    place = func.row_number().over(order_by=order).label("place")
    places = select(Job.id, place).where(IN_QUEUE).order_by(*order).limit(MOST_COUNTED).subquery()
    rows = session.execute(select(places.c.id, places.c.place).where(places.c.id.in_(job_ids)))
    return {job_id: place for job_id, place in rows}  # noqa: C416 - a row is no pair to the type checker


def _ahead(
    session: Session, job_ids: Sequence[str], projects: Sequence[str], order: _Order, *, full: Sequence[str]
) -> Mapping[str, int]:
    """For each of these jobs: the number of slots for which earlier jobs of its project wait.

    Jobs behind the first `MOST_COUNTED` are left out, and so are new jobs of the projects that are `full`.
    """
    if not projects:
        return {}
    head = select(Job.id, Job.project, Job.gpus, func.row_number().over(order_by=order).label("place"))
    head = head.where(IN_QUEUE, READY, Job.project.in_(projects), goes_on_if_full(full))
    first = head.order_by(*order).limit(MOST_COUNTED).subquery()
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


def explain(
    job_id: str,
    request: SlotRequest,
    hosts: Sequence[RegisteredHost],
    waits_for: WaitsFor,
    pools: Sequence[RegisteredPool] = (),
) -> str:
    """Why a queued job does not run: a sentence without its full stop."""
    already = _before_slots(waits_for)
    if already is not None:
        return already
    auto = kind_for_auto(hosts, pools)
    slots = _Slots(job_id, request, hosts, auto=auto)
    goes_to_pool = first_that_fits([one.pool for one in pools if one.in_use], request, auto=auto) is not None
    if request.pool is not None:
        never = why_no_pool(request, pools, auto=auto)
    else:
        never = None if goes_to_pool else slots.too_small()
    held_back = waits_for.quota and (
        _over_storage(waits_for.quota, waits_for)
        or _over_quota(request.gpus, slots.needed, waits_for.quota, waits_for.ahead)
    )
    too_full = None if goes_to_pool else slots.too_full()
    return never or held_back or _making_room(waits_for) or too_full or "is next"


def _before_slots(waits_for: WaitsFor) -> str | None:
    """Why it is not placed whatever is free, or how far Slurm is with it. None: it waits for slots."""
    if waits_for.obstacle is not None:
        return waits_for.obstacle
    if waits_for.paused:
        return f"paused: {waits_for.why_paused}" if waits_for.why_paused else "paused"
    if waits_for.others:
        return _after(waits_for.others)
    if waits_for.pause_s > 0:
        return f"waits {waits_for.pause_s:.0f} s more after a failed attempt"
    return None if waits_for.in_slurm is None else waits_in_slurm(waits_for.in_slurm)


def _after(others: Sequence[Awaited]) -> str:
    """For which jobs it waits: `waits for job 3k9v, which is running`."""
    if len(others) == 1:
        return f"waits for job {others[0].job_id}, which is {others[0].state}"
    named = [f"{other.job_id} ({other.state})" for other in others[:_MOST_NAMED]]
    more = len(others) - len(named)
    return f"waits for {len(others)} jobs: {', '.join(named)}{f' and {more} more' if more else ''}"


def _making_room(waits_for: WaitsFor) -> str | None:
    if not waits_for.leaving:
        return None
    several = "jobs" if len(waits_for.leaving) > 1 else "job"
    return f"waits for {several} {' and '.join(waits_for.leaving)} to save and make room"


class _Slots:
    """The slots that a queued job needs, and those of the hosts."""

    def __init__(self, job_id: str, request: SlotRequest, hosts: Sequence[RegisteredHost], *, auto: str) -> None:
        self._job_id = job_id
        self._request = request
        self._hosts = hosts
        self._in_use = Cluster((host.slots for host in hosts if host.in_use), auto=auto)
        self._registered = Cluster((host.slots for host in hosts), auto=auto)

    @property
    def _with_slots(self) -> list[RegisteredHost]:
        """The hosts with slots that it may take, in any state."""
        names = {slots.host for slots in self._registered.classes(self._request)}
        return [host for host in self._hosts if host.slots.host in names]

    @property
    def needed(self) -> str:
        """The slots that it asks for, in words."""
        return slots_text(self._request, self._registered)

    def too_small(self) -> str | None:
        """Why the live hosts could not hold the job even if they were empty; None if they could."""
        why = self._why_too_small()
        return None if why is None else why + self._out_of_service()

    def too_full(self) -> str | None:
        """Why the job does not fit now on the hosts that could hold it if they were empty."""
        why = self._why_too_full()
        return None if why is None else why + self._out_of_service()

    def _why_too_small(self) -> str | None:
        request, cluster = self._request, self._in_use
        if not any(host.alive for host in self._hosts):
            return "no host is alive"
        if not cluster.classes(request):
            return self._why_none_in_use()
        if cluster.attainable(request) is not None:
            return None
        ways = other_ways(cluster, request)
        on_one_host, together = cluster.most(request, cluster.capacity)
        if together is None:
            return f"needs {self.needed} on one host; the largest host has {on_one_host}{ways}"
        if together < request.gpus:
            return f"needs {self.needed}; the hosts that work together have {together}{ways}"
        return (
            f"needs {self.needed}, the same number on each host; of {together}, at most {on_one_host} are on one "
            f"host{ways}"
        )

    def _why_none_in_use(self) -> str:
        """Why no host that takes jobs has such slots."""
        missing = no_such_gpu(self._registered.capacity, self._request)
        if missing is not None:
            return f"needs {self._request.gpus} GPU{'' if self._request.gpus == 1 else 's'}; {missing.text}"
        with_slots = self._with_slots
        alive = [host for host in with_slots if host.alive]
        lost = ", ".join(host.slots.host for host in with_slots[:_MOST_NAMED])
        why = "no host with such slots has space"
        if not alive:
            why = f"no live host has such slots{f' (lost: {lost})' if lost else ''}"
        elif all(host.drained for host in alive):
            why = "all hosts with such slots are drained"
        return f"needs {self.needed}; {why}{other_ways(self._in_use, self._request)}"

    def _out_of_service(self) -> str:
        """Names the slots that the job could take if their hosts had space or they were healthy; empty if none."""
        left_out = [
            f"{host.slots.host} takes no jobs until there is space: {host.no_space}"
            for host in self._with_slots
            if host.alive and not host.drained and host.no_space
        ]
        if self._in_use.kind_for(self._request) == "gpu":
            left_out += [
                f"{_are(host.unhealthy, 'slot', of=host.slots.host)} unhealthy"
                for host in self._hosts
                if host.unhealthy and host.alive and not host.drained
            ]
        more = f" (and {len(left_out) - _MOST_NAMED} more hosts)" if len(left_out) > _MOST_NAMED else ""
        return "".join(f"; {reason}" for reason in left_out[:_MOST_NAMED]) + more

    def _why_too_full(self) -> str | None:
        cluster = self._in_use
        request = cluster.attainable(self._request) or self._request
        if cluster.fit(request, cluster.free) is not None:
            return self._why_kept(request)
        needed = slots_text(request, self._registered)
        on_one_host, together = cluster.most(request, cluster.free)
        if together is None and request.gpus > 1:
            return f"needs {needed} on one host; best host has {on_one_host} free"
        free = on_one_host if together is None else together
        if free < request.gpus:
            return f"needs {needed}; {_are(free)} free"
        return f"needs {needed}, the same number on each host; {_are(free)} free, at most {on_one_host} on one host"

    def _why_kept(self, request: SlotRequest) -> str | None:
        """Names the earlier job for which the slots are kept that this job needs. None if enough others are free."""
        cluster = self._in_use
        kept_for = {
            host.slots.host: host.kept_for
            for host in self._hosts
            if host.in_use and host.kept_for not in (None, self._job_id)
        }
        others = {slots: 0 if slots.host in kept_for else count for slots, count in cluster.free.items()}
        if cluster.fit(request, others) is not None:
            return None
        kept = {slots: cluster.free[slots] for slots in cluster.classes(request) if slots.host in kept_for}
        earlier_job = kept_for[max(kept, key=kept.__getitem__).host]
        free = sum(count for slots, count in kept.items() if kept_for[slots.host] == earlier_job)
        return f"{_are(free, 'slot')} free, but kept for job {earlier_job}, which comes first"


def _over_storage(quota: Quota, waits_for: WaitsFor) -> str | None:
    """Why a new job waits if its project's jobs keep more than they may; None if it does not wait for that."""
    if not quota.is_full or waits_for.keeps_files:
        return None
    storage = f"{_gigabytes(quota.storage_gb)} of {_gigabytes(quota.max_storage_gb or 0.0)} GB"
    most = ", all by jobs that have not ended"
    if waits_for.most_stored is not None:
        job_id, size_gb = waits_for.most_stored
        most = f", the most by job {job_id} ({_gigabytes(size_gb)} GB)"
    return f"its project {quota.project} keeps {storage}{most}; it continues when files of jobs are removed"


def _over_quota(gpus: int, needed: str, quota: Quota, ahead: int) -> str | None:
    """Why the project's quota holds the job back, even if slots are free; None if it does not."""
    if quota.is_used_up:
        hours = f"{_figure(quota.gpu_hours)} of {_figure(quota.max_gpu_hours or 0.0)} GPU-hours this month"
        return f"its project {quota.project} used {hours}; it continues at {quota.renews_at:%Y-%m-%d %H:%M} UTC"
    if quota.max_slots is None:
        return None
    if quota.is_less_than(gpus):
        return f"needs {needed}; its project {quota.project} may have {quota.max_slots} at once"
    in_use = f"its project {quota.project} has {quota.slots} of {quota.max_slots} slots in use"
    left = max(quota.max_slots - quota.slots, 0)
    if left == 0:
        return in_use
    if gpus > left:
        return f"needs {needed}; {in_use}"
    return f"{in_use}, and other jobs of the project come first" if ahead + gpus > left else None


def _are(count: int, noun: str = "", *, of: str = "") -> str:
    number = str(count or "none")
    noun = f" {noun}{'' if count == 1 else 's'}" if noun else ""
    return f"{number}{noun}{f' of {of}' if of else ''} {'is' if count <= 1 else 'are'}"


def _figure(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _gigabytes(value: float) -> str:
    return _figure(value) if value >= 1 else f"{value:.3g}"
