"""Says why a queued job waits. Pure; `jobs.scheduling.queue` reads what it needs and calls it."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.lifecycle.waits import Awaited
from jobs.scheduling.allocations import PoolWait
from jobs.scheduling.allowances import Quota
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.placement_rows import RegisteredHost, RegisteredPool, kind_for_auto
from jobs.scheduling.pool_reasons import waits_in_slurm, why_no_pool
from jobs.scheduling.pools import first_that_fits
from jobs.scheduling.shortage import no_such_gpu, other_ways, slots_text
from jobs.scheduling.slots import SlotRequest

_MOST_NAMED = 3  # hosts without space in one sentence


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
    turn: str | None = None  # in a fair queue: which jobs come first


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
    too_full = None if goes_to_pool else slots.too_full(waits_for.turn)
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

    def too_full(self, turn: str | None = None) -> str | None:
        """Why the job does not fit now on the hosts that could hold it if they were empty, and whose `turn` it is."""
        why = self._why_too_full(f"; {turn}" if turn else "")
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

    def _why_too_full(self, turn: str) -> str | None:
        cluster = self._in_use
        request = cluster.attainable(self._request) or self._request
        if cluster.fit(request, cluster.free) is not None:
            return self._why_kept(request)
        needed = slots_text(request, self._registered)
        on_one_host, together = cluster.most(request, cluster.free)
        if together is None and request.gpus > 1:
            return f"needs {needed} on one host; best host has {on_one_host} free{turn}"
        free = on_one_host if together is None else together
        if free < request.gpus:
            return f"needs {needed}; {_are(free)} free{turn}"
        how = f"{_are(free)} free, at most {on_one_host} on one host"
        return f"needs {needed}, the same number on each host; {how}{turn}"

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
