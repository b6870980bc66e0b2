"""The dispatcher: one pass places every job that can be placed now, and asks attempts to make room for others.

Hints start it, and so does every worker's reconciliation. A lock in the database allows one pass at a time. So jobs
start without depending on any single process.
"""

import gc
import logging
import random
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import takewhile

from sqlalchemy import ColumnElement, Select, exists, func, or_, select, text
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import AccountStanding, Host
from jobs.lifecycle.bursts import enter_levels
from jobs.model.preemption import PreemptionCause
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling.account_rows import accounts_in_line, fair_rules, jobs_in_turn, store_standings
from jobs.scheduling.allocations import hand_to_pools
from jobs.scheduling.allowances import Allowances
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fair_queue import Fair
from jobs.scheduling.live_rows import live_attempts
from jobs.scheduling.placement import PlacementPass
from jobs.scheduling.placement_rows import (
    IN_LINE,
    PASS_LOCK,
    QueuePage,
    is_alive,
    kind_for_auto,
    next_page,
    registered_hosts,
    registered_pools,
)
from jobs.scheduling.placing import place, request_preemption
from jobs.scheduling.quotas import active_quotas
from jobs.scheduling.slots import HostSlots
from worker.attempt.launcher import Launcher

_log = logging.getLogger(__name__)

_NEXT_PASS = 0x626568696E64  # the number of an advisory lock
_PAGE = 250  # jobs read at once
_MOST_LOOKED_AT = 10_000  # jobs in one pass
_MOST_IN_VAIN = 2_000  # jobs in most passes that get nothing although slots are free
_FAR = 10  # so many passes after each other: one of them looks as far as it may
_MOST_PLACED = 500  # jobs in one pass: it holds up others. The next one follows at once
PASSES_A_PERIOD = 4  # by the reconciliations of all hosts together


def queue_has_work() -> ColumnElement[bool]:
    """Whether a pass may change something, as SQL: jobs are in line, or rows speak of jobs that were."""
    is_kept = exists().where(Host.kept_for.is_not(None))
    return or_(exists().where(IN_LINE), exists(select(AccountStanding.project)), is_kept)


class Dispatcher:
    """Places jobs, and sends hints to the hosts that got one. The `launcher` launches those of its own host."""

    def __init__(
        self, sessions: Sessions, hints: Hints, settings: Settings, *, launcher: Launcher | None = None
    ) -> None:
        self._sessions = sessions
        self._hints = hints
        self._settings = settings
        self._launcher = launcher
        self._waiting = threading.Lock()
        self._running = threading.Lock()
        self._passing = ThreadPoolExecutor(1, thread_name_prefix="passes")
        self._hosts_alive = 1
        self._passes = 0

    def has_turn(self) -> bool:
        """Whether the reconciliation of this host looks after the whole service this time.

        If there are many hosts, each skips most of its turns. If each of hundreds looked once a second, the database
        would do little else.
        """
        return random.random() * self._hosts_alive <= PASSES_A_PERIOD  # noqa: S311 - nothing secret

    def run(self) -> int:
        """Place all jobs that can be placed. Returns how many were.

        While a pass runs, one more caller waits for it, in this process or another. All others return 0 at once,
        because the pass of the waiting caller sees their rows.
        """
        return self._run_next() if self._waiting.acquire(blocking=False) else 0

    def run_soon(self) -> None:
        """Place all jobs that can be placed, in a thread, without waiting for it. Nothing is done if a pass waits."""
        if self._waiting.acquire(blocking=False):
            self._passing.submit(self._run_logged)

    def close(self) -> None:
        """Finish the present pass."""
        self._passing.shutdown(cancel_futures=True)

    def _run_logged(self) -> None:
        try:
            self._run_next()
        except Exception:
            _log.exception("a pass of the dispatcher failed, the next one tries again")

    def _run_next(self) -> int:
        with self._running:
            self._waiting.release()
            return self._run_among_workers()

    def _run_among_workers(self) -> int:
        with self._sessions.begin() as session:
            is_first, self._hosts_alive = session.execute(_try_pass_lock(self._settings.host_timeout_s)).one()
            if not is_first and not self._waits_for_pass_lock(session):
                return 0
            with _no_collection():
                placed = self._pass(session)
        if len(placed) >= _MOST_PLACED:
            self._hints.dispatch()
        for attempt_id, lead in placed.items():
            if self._launcher is not None and lead == self._settings.host:
                self._launcher.launch_soon(attempt_id)
            else:
                self._hints.launch(attempt_id, host=lead)
        return len(placed)

    def _waits_for_pass_lock(self, session: Session) -> bool:
        """Wait for the pass of another worker to end. False: somebody waits for that already."""
        with self._sessions() as waiting_session:
            if not waiting_session.scalar(select(func.pg_try_advisory_xact_lock(_NEXT_PASS))):
                return False
            session.execute(select(func.pg_advisory_xact_lock(PASS_LOCK)))
        return True  # rows committed from now on are for the next pass

    def _pass(self, session: Session) -> Mapping[int, str]:
        """Decide and store the decisions; returns the lead host of each new attempt."""
        pools = registered_pools(session, host_timeout_s=self._settings.host_timeout_s)
        alive = [one.pool.name for one in pools if one.alive]
        is_fair = self._settings.queue == "fair"
        wanting = accounts_in_line(session) if is_fair else set()
        page = QueuePage([], None) if is_fair else next_page(session, None, limit=_PAGE, pools=alive)
        if not wanting and not page.jobs:
            session.execute(_KEEP_NO_HOSTS)
            store_standings(session, {})
            return {}
        hosts = registered_hosts(session, host_timeout_s=self._settings.host_timeout_s)
        slots_in_use = [host.slots for host in hosts if host.in_use]
        live = live_attempts(session, slots_in_use, quantum_s=self._settings.queue_quantum_s)
        if is_fair:
            enter_levels(session, {one.job_id: one.level for one in live if one.level > one.stored_level})
        rules = self._fair_rules(session, wanting, live, slots_in_use) if is_fair else None
        scheduling_pass = PlacementPass(
            slots_in_use, live, active_quotas(session).values(),
            pools=[one.pool for one in pools if one.in_use], auto=kind_for_auto(hosts, pools), rules=rules,
        )  # fmt: skip
        if rules is None:
            queue = _by_age(session, page, scheduling_pass.allowances, pools=alive)
        else:
            queue = jobs_in_turn(session, rules, scheduling_pass, pools=alive)

        self._passes += 1
        most_in_vain = _MOST_LOOKED_AT if self._passes % _FAR == 0 else _MOST_IN_VAIN

        def goes_on(_: QueuedJob) -> bool:
            return (
                scheduling_pass.looked_at < _MOST_LOOKED_AT
                and scheduling_pass.in_vain < most_in_vain
                and len(scheduling_pass.placements) < _MOST_PLACED
            )

        scheduling_pass.take(takewhile(goes_on, queue))
        store_standings(session, {} if rules is None else rules.standings())
        leases = place(session, scheduling_pass.placements, lease_s=self._settings.lease_s)
        hand_to_pools(session, scheduling_pass.pooled)
        for preemption in scheduling_pass.preemptions:
            request_preemption(session, preemption.attempt_ids, PreemptionCause.for_job(preemption.job_id))
            _log.info("attempts %s are preempted", list(preemption.attempt_ids), extra={"job": preemption.job_id})
        _store_kept_for(session, scheduling_pass.kept_for, {host.slots.host: host.kept_for for host in hosts})
        leads = {placement.job_id: placement.shares[0].host for placement in scheduling_pass.placements}
        return {lease.attempt_id: leads[lease.job_id] for lease in leases}

    def _fair_rules(
        self, session: Session, wanting: Collection[Account], live: Sequence[LiveAttempt], hosts: Sequence[HostSlots]
    ) -> Fair:
        slots = Counter[str]()
        for alike in (alike for host in hosts for alike in host.classes):
            slots[alike.of.kind] += alike.capacity
        half_life_s = self._settings.queue_half_life_h * 3600
        return fair_rules(session, wanting, live, slots=slots, half_life_s=half_life_s)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A pass makes many small objects that live until its end. To look for garbage among them takes a fifth of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _by_age(
    session: Session, page: QueuePage, allowances: Allowances, *, pools: Collection[str]
) -> Iterator[QueuedJob]:
    """The queue by priority and age, from this page on."""
    while True:
        yield from page.jobs
        if page.after is None:
            return
        page = next_page(session, page.after, limit=_PAGE, without=allowances.over, full=allowances.full, pools=pools)


def _store_kept_for(session: Session, kept: Mapping[str, str], stored: Mapping[str, str | None]) -> None:
    """Store for which job each host's free slots are kept, if that differs from the `stored` rows."""
    changed = {host: kept.get(host) for host, before in stored.items() if kept.get(host) != before}
    if changed:
        session.execute(_KEEP_HOSTS, {"hosts": [*changed], "job_ids": [*changed.values()]})


_KEEP_NO_HOSTS = text("UPDATE hosts SET kept_for = NULL WHERE kept_for IS NOT NULL")
_KEEP_HOSTS = text("""
    UPDATE hosts SET kept_for = kept.job_id
    FROM unnest(CAST(:hosts AS varchar[]), CAST(:job_ids AS varchar[])) AS kept (host, job_id)
    WHERE hosts.name = kept.host
""")


@cache
def _try_pass_lock(host_timeout_s: float) -> Select[bool, int]:
    alive = select(func.count()).where(is_alive(host_timeout_s)).scalar_subquery()
    return select(func.pg_try_advisory_xact_lock(PASS_LOCK), alive)
