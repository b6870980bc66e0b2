"""The present state of the queue for a forecast, read from the rows: who holds slots, who waits, and who ran lately.

Called by `worker.forecaster`. Reading is one transaction; what follows is pure and needs none.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import count, islice
from typing import Any

from sqlalchemy import RowMapping, Select, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, Project
from jobs.model.attained_service import decayed_s
from jobs.runtime.settings import Settings
from jobs.scheduling.account_rows import accounts_in_line, fair_rules, jobs_in_turn, used_by_accounts
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.forecast import AGAIN_S, expected_starts_s, submitted_again
from jobs.scheduling.forecast_durations import History, Run
from jobs.scheduling.live_rows import live_attempts, live_columns, preemption_cost_s
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.placement_rows import (
    kind_for_auto,
    next_page,
    queued_job_of,
    registered_hosts,
    registered_pools,
    select_queued_jobs,
)
from jobs.scheduling.pools import first_that_fits
from jobs.scheduling.quotas import active_quotas
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import SimulatedJob
from jobs.scheduling.slots import HostSlots

MOST_FORECAST = 2000  # jobs from the head of the queue
_MOST_REMEMBERED = 1000  # jobs that were submitted lately
_COST_S = 60.0  # of a preemption, as long as it was not measured
_ENDING_S = 10.0  # an attempt that was cancelled or paused holds its slots about so long


@dataclass(frozen=True)
class Present:
    """The state of the queue at a time. Times are in seconds from then.

    `jobs` hold slots or wait; nobody has said yet how long they are going to run. `recent` were submitted lately, and
    may be among them. `runs` has all of them by id. `queued_at` are the times at which the waiting ones began to wait.
    """

    now: datetime
    hosts: Sequence[HostSlots] = ()
    jobs: Sequence[SimulatedJob] = ()
    recent: Sequence[SimulatedJob] = ()
    runs: Mapping[str, Run] = field(default_factory=dict)
    queued_at: Mapping[str, datetime] = field(default_factory=dict)
    scheduler: HoraScheduler = field(default_factory=lambda: HoraScheduler("fifo"))

    def expected_starts_s(self, is_enough: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """In how many seconds the waiting jobs are expected to start, by id."""
        jobs = {job.job_id: job for job in (*self.jobs, *self.recent) if not self.runs[job.job_id].has_ended}
        lefts_s = History(self.runs.values()).left_s(self.runs[job_id] for job_id in jobs)
        left_s = dict(zip(jobs, lefts_s, strict=True))
        durations_s = [self.runs[job.job_id].ran_s + left_s.get(job.job_id, 0.0) for job in self.recent]
        first_s = min((job.submitted_s for job in self.recent), default=0.0)
        again = submitted_again(self.recent, durations_s, since_s=max(first_s, -AGAIN_S), now_s=0.0)
        believed = [job.believed(left_s[job.job_id], 0.0) for job in self.jobs]
        return expected_starts_s(
            [*believed, *again], self.hosts, self.scheduler, awaited=self.queued_at, is_enough=is_enough
        )


def read_present(session: Session, settings: Settings) -> Present:
    """Read the state of the queue. Only its first jobs are read."""
    now: datetime = session.execute(select(func.now())).scalar_one()
    pools = registered_pools(session, host_timeout_s=settings.host_timeout_s)
    alive_pools = [one.pool.name for one in pools if one.alive]
    if not next_page(session, None, limit=1, pools=alive_pools).jobs:
        return Present(now)
    hosts = registered_hosts(session, host_timeout_s=settings.host_timeout_s)
    in_use = [host.slots for host in hosts if host.in_use]
    auto = kind_for_auto(hosts, pools)
    live = live_attempts(session, in_use, quantum_s=settings.queue_quantum_s)
    quotas = list(active_quotas(session).values())
    half_life_s = settings.queue_half_life_h * 3600
    kinds = Counter[str]()
    for alike in (alike for host in in_use for alike in host.classes):
        kinds[alike.of.kind] += alike.capacity
    decided = PlacementPass(in_use, live, quotas, auto=auto)
    if settings.queue == "fair":
        rules = fair_rules(session, accounts_in_line(session), live, slots=kinds, half_life_s=half_life_s)
        queue: Iterator[QueuedJob] = jobs_in_turn(session, rules, decided, pools=alive_pools)
    else:
        queue = iter(next_page(session, None, limit=MOST_FORECAST, pools=alive_pools).jobs)
    slurm = [one.pool for one in pools if one.in_use]
    waiting = {
        job.job_id: job
        for job in islice(queue, MOST_FORECAST)
        if decided.may_ever_hold(job) and first_that_fits(slurm, job.request, auto=auto) is None
    }
    attempts = {row["id"]: row for row in session.execute(live_columns()).mappings()}
    return _present(session, now, in_use, live, attempts, waiting, HoraScheduler(
        settings.queue, half_life_s=half_life_s, quantum_s=settings.queue_quantum_s, quotas=quotas, auto=auto,
        shares={name: share for name, share in session.execute(_SHARES)},  # noqa: C416 - a row is no pair
        used_s=_used_before_s(session, attempts.values(), half_life_s) if settings.queue == "fair" else None,
    ))  # fmt: skip


def _present(
    session: Session,
    now: datetime,
    hosts: Sequence[HostSlots],
    live: Sequence[LiveAttempt],
    attempts: Mapping[str, RowMapping],
    waiting: Mapping[str, QueuedJob],
    scheduler: HoraScheduler,
) -> Present:
    now_s = now.timestamp()
    by_id = {row["id"]: row for row in session.execute(_rows_of([*attempts, *waiting])).mappings()}
    newest = {row["id"]: row for row in session.execute(_newest(_MOST_REMEMBERED)).mappings()}
    returning = set(session.scalars(_RETURNING))
    held = {one.attempt_id: one for one in live}
    holders = [
        _holder(held[row["attempt_id"]], row, by_id[job_id], now_s)
        for job_id, row in attempts.items()
        if row["attempt_id"] in held and job_id in by_id
    ]
    over = {job_id for job_id, row in attempts.items() if row["leaving"] and row["attempt_id"] not in returning}
    for job, _ in holders:
        job.leaving = job.leaving and job.job_id not in over
    _number_slots(holders)
    queued = [_waiter(by_id[job_id], now_s) for job_id in waiting if job_id in by_id]
    jobs = [*(holder for holder, _ in holders), *queued]
    recent = [_waiter(row, now_s) for row in newest.values() if row["pool"] is None]
    return Present(
        now, hosts, jobs, recent,
        runs={
            job_id: _run(row, attempts.get(job_id), now_s, is_over=job_id in over)
            for job_id, row in (newest | by_id).items()
        },
        queued_at={job.job_id: by_id[job.job_id]["queued_at"] for job in queued},
        scheduler=scheduler,
    )  # fmt: skip


def _holder(attempt: LiveAttempt, live: RowMapping, row: RowMapping, now_s: float) -> tuple[SimulatedJob, LiveAttempt]:
    job = _waiter(row, now_s)
    job.gpus, job.slot_s, job.attempt_id = attempt.gpus, live["slot_seconds"], attempt.attempt_id
    job.begun_s, job.waited_s = -max(live["age_s"], 0.0), live["waited_s"]
    job.cost_s = preemption_cost_s(live) if live["can_save"] else math.inf
    job.says_end = live["eta_s"] is not None
    job.leaving = attempt.leaving
    return job, attempt


def _number_slots(holders: Sequence[tuple[SimulatedJob, LiveAttempt]]) -> None:
    """Give the slots that are held some indices. Nothing depends on which, so they are not read."""
    numbers = count(1_000_000)  # above those of free slots
    for job, attempt in holders:
        job.slots = tuple((of, tuple(islice(numbers, number))) for of, number in attempt.slots.items())


def _waiter(row: RowMapping, now_s: float) -> SimulatedJob:
    queued = queued_job_of(row)
    job = SimulatedJob(
        queued.job_id, queued.order[1] - now_s, math.nan, row["gpus"], queued.account.user, queued.account.project,
        queued.priority, request=queued.request, cost_s=_COST_S if row["can_save"] else math.inf,
        estimate_s=queued.estimate_s, keeps_files=queued.keeps_files, burst=row["burst"] or "",
        least_level=queued.level,
    )  # fmt: skip
    job.slot_s, job.queued_s = row["slot_seconds"], -max(queued.waited_s, 0.0)
    return job


def _run(row: RowMapping, live: RowMapping | None, now_s: float, *, is_over: bool) -> Run:
    """`is_over`: its attempt is ending, and its job does not come back."""
    age_s = 0.0 if live is None else max(live["age_s"], 0.0)
    ran_s = row["slot_seconds"] / row["gpus"] + age_s
    runs_s = list(row["durations_s"] or ())
    if row["has_ended"] and runs_s:  # its own duration is among them
        runs_s.remove(min(runs_s, key=lambda duration_s: abs(duration_s - ran_s)))
    return Run(
        Account(row["project"], row["owner"]), row["created_s"] - now_s, ran_s, has_ended=row["has_ended"],
        eta_s=_ENDING_S if is_over else None if live is None else live["eta_s"],
        time_limit_s=row["time_limit_s"], runs_s=runs_s,
    )  # fmt: skip


@cache
def _rows() -> Select[Any]:
    return select_queued_jobs().add_columns(
        Job.slot_seconds,
        Job.queued_at,
        Job.burst,
        Job.ended_at.is_not(None).label("has_ended"),
        or_(Job.code.is_(None), func.coalesce(Job.checkpoint_bytes, 0) > 0).label("can_save"),
    )


def _rows_of(job_ids: Collection[str]) -> Select[Any]:
    return _rows().where(Job.id.in_(job_ids))


@cache
def _newest(most: int) -> Select[Any]:
    return _rows().where(Job.run_id.is_(None)).order_by(Job.created_at.desc(), Job.id.desc()).limit(most)


_SHARES = select(Project.name, Project.share).where(Project.share != 1.0)
# Attempts that make room. Their jobs go back to the queue, unlike those that are cancelled or paused.
_RETURNING = (
    select(Attempt.id)
    .join(Job, Job.id == Attempt.job_id)
    .where(
        Attempt.ended_at.is_(None), Attempt.preempt_requested_at.is_not(None),
        Job.cancel_requested_at.is_(None), Job.paused_at.is_(None),
    )
)  # fmt: skip


def _used_before_s(
    session: Session, attempts: Iterable[RowMapping], half_life_s: float
) -> dict[Account, tuple[float, float]]:
    """What each account used without its live attempts, decayed until now, and when: now."""
    used_s = dict(used_by_accounts(session, half_life_s))
    for row in attempts:
        account = Account(row["project"], row["owner"])
        held_s = decayed_s(max(row["age_s"], 0.0), half_life_s) * row["gpus"]
        used_s[account] = used_s.get(account, 0.0) - held_s
    return {account: (max(slot_s, 0.0), 0.0) for account, slot_s in used_s.items()}
