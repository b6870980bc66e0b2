"""The dispatcher: one pass places every job that can be placed now.

Woken by hints (a Celery task) and run by every worker's reconciliation, under a lock in the database, so that no
one process is needed for jobs to start.
"""

import threading
from datetime import timedelta
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from jobs.database import Sessions
from jobs.hints import Hints
from jobs.leases import place
from jobs.placement import FreeSlots, Waiting, place_jobs
from jobs.settings import Settings
from jobs.states import Status
from jobs.tables import Host, Job, Slot

_ONE_DISPATCHER = 0x646973706174  # "dispat": an advisory lock's number
_MOST_AT_ONCE = 1000  # jobs looked at in one pass


class Dispatcher:
    """Places jobs; hints the hosts that got one."""

    def __init__(self, sessions: Sessions, hints: Hints, settings: Settings) -> None:
        self._sessions = sessions
        self._hints = hints
        self._settings = settings
        self._waiting = threading.Lock()
        self._running = threading.Lock()

    def run(self) -> int:
        """Place what can be placed; returns how many jobs were.

        Of several callers in this process one waits for the pass that runs and then sees the rows of all others;
        those return 0 at once.
        """
        if not self._waiting.acquire(blocking=False):
            return 0
        with self._running:
            self._waiting.release()
            return self._pass()

    def _pass(self) -> int:
        with self._sessions.begin() as session:
            session.execute(select(func.pg_advisory_xact_lock(_ONE_DISPATCHER)))
            queue = _queue(session)
            if not queue:
                return 0
            hosts = _free_slots(session, self._settings)
            placements = place_jobs(queue, hosts, patience_s=300)
            leads = {placement.job_id: placement.shares[0].host for placement in placements}
            placed = place(session, placements, lease_s=self._settings.lease_s)
        for lease in placed:
            self._hints.launch(lease.attempt_id, host=leads[lease.job_id])
        return len(placed)


def _queue(session: Session) -> list[Waiting]:
    waited: Any = func.extract("epoch", func.now() - Job.created_at)
    fewest = case((Job.attempt > 0, Job.spec["min_gpus"].as_integer()))  # a job starts with all that it asks for
    batch = case((Job.spec["batch_per"].astext == "global", Job.spec["batch_size"].as_integer()))
    rows = session.execute(
        select(Job.id, Job.gpus, Job.spec["device"].astext, waited, fewest, batch)
        .where(
            Job.status == Status.QUEUED,
            Job.cancel_requested_at.is_(None),
            Job.paused_at.is_(None),
            func.coalesce(Job.not_before, func.now()) <= func.now(),
        )
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
        .limit(_MOST_AT_ONCE)
    )
    return [
        Waiting(job_id, gpus, device, float(waited_s), fewest_gpus, global_batch)
        for job_id, gpus, device, waited_s, fewest_gpus, global_batch in rows
    ]


def _free_slots(session: Session, settings: Settings) -> list[FreeSlots]:
    free = func.array_agg(Slot.index).filter(Slot.attempt_id.is_(None))
    rows = session.execute(
        select(Slot.host, Slot.kind, free, func.count())
        .join(Host, Host.name == Slot.host)
        .where(
            Host.heartbeat_at > func.now() - timedelta(seconds=settings.host_timeout_s),
            Slot.retired_at.is_(None),
            Slot.quarantined_at.is_(None),
        )
        .group_by(Slot.host, Slot.kind)
    )
    return [FreeSlots(host, kind, tuple(sorted(indices or ())), capacity) for host, kind, indices, capacity in rows]
