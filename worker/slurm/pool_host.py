"""A pool as a host of the service: its row, its heartbeat, and its attempts, whose supervisors run on the login node.

The agent of the worker calls it in each of its passes. The worker's threads for a host do the same for the pool, with
the pool's name: the fetcher of datasets, and the copier to the store.
"""

import logging
import socket
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host
from jobs.runtime.settings import Settings
from jobs.scheduling import registration
from jobs.scheduling.allocations import allocation_of
from worker.attempt.launcher import Launcher
from worker.attempt_keeper import AttemptKeeper
from worker.slurm.desk import Desk

_log = logging.getLogger(__name__)


class PoolHost:
    """The pool of a worker, as one of its hosts. `settings` are those of the worker, with the pool's name."""

    def __init__(self, sessions: Sessions, settings: Settings, *, launcher: Launcher, desk: Desk) -> None:
        self._sessions = sessions
        self._settings = settings
        self._launcher = launcher
        self._desk = desk
        self._registered: dict[str, Any] | None = None  # as its row says
        self._heartbeat_at = float("-inf")

    def reconcile(self, *, leases_count: Callable[[Session], bool], meanwhile: Callable[[], None]) -> None:
        """Send the heartbeat of the pool, and look after its attempts."""
        if not self._desk.has_lock:
            return
        self._beat()
        keeper = AttemptKeeper(
            self._sessions, self._settings, launcher=self._launcher, leases_count=leases_count, meanwhile=meanwhile,
            may_release=_is_given_back, is_elsewhere=_is_supervised_elsewhere,
        )  # fmt: skip
        keeper.look_after_all()

    def _beat(self) -> None:
        """Write what is known of the pool, or that its worker lives. Before Slurm's first answer there is no pool."""
        info, now = self._info(), time.monotonic()
        if info is None:
            return
        if info != self._registered:
            with self._sessions.begin() as session:
                registration.register_pool(session, self._settings.host, info)
            if self._registered is None:
                _log.info("pool %s registered with %d nodes", self._settings.host, len(info["nodes"]))
            self._registered, self._heartbeat_at = info, now
        elif now - self._heartbeat_at >= self._settings.heartbeat_period_s:
            with self._sessions.begin() as session:
                is_registered = registration.beat(session, self._settings.host)
            self._heartbeat_at = now
            if not is_registered:
                self._registered = None

    def _info(self) -> dict[str, Any] | None:
        """What the row is to say. Until Slurm has answered this worker: what it said before, and why it is silent."""
        partition = self._desk.partition
        if partition is None:
            with self._sessions() as session:
                row = session.get(Host, self._settings.host)
            return None if row is None else {**row.info, "problem": self._desk.problem}
        limit = partition.time_limit
        return {
            "nodes": [node.to_json() for node in partition.nodes],
            "time_limit_s": None if limit is None else limit.total_seconds(),
            "problem": self._desk.problem,
            "failing": list(self._desk.exclusion.failing),
        }


def _is_supervised_elsewhere(session: Session, attempt: Attempt) -> bool:
    """Whether the worker that began the attempt ran on another login node: this one took the pool over."""
    allocation = allocation_of(session, attempt)
    return allocation is not None and allocation.login != socket.gethostname()


def _is_given_back(session: Session, attempt: Attempt) -> bool:
    """Whether Slurm has nothing left of the nodes on which an attempt ended: what was left there has ended too."""
    allocation = allocation_of(session, attempt)
    return allocation is None or allocation.over_at is not None
