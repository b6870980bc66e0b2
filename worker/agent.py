"""The agent of a host: a thread of its worker that keeps the rows and the host's processes in step.

Once a period it sends the host's heartbeat, ends attempts whose supervisor died, starts supervisors whose launch
message was lost, releases slots whose processes have ended (`worker.attempt_keeper`), ends attempts that other hosts
abandoned, and dispatches. Every step is safe to repeat and safe to run on several hosts at once. A worker with a Slurm
pool has the same thread do this for the pool (`worker.slurm.pool_host`).
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import or_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobs.db.clock import DatabaseClock
from jobs.db.engine import Sessions, is_away, is_busy
from jobs.lifecycle import leases
from jobs.lifecycle.leases import AbandonedAttempt, StaleLease
from jobs.runtime.settings import Settings
from jobs.runtime.space import FolderSpace, problem_of
from jobs.scheduling import registration
from jobs.scheduling.registration import SlotInfo
from worker.attempt.launcher import Launcher
from worker.attempt_keeper import AttemptKeeper, has_attempts
from worker.dispatcher import PASSES_A_PERIOD, Dispatcher, queue_has_work
from worker.host.devices import Devices, device_facts
from worker.host.gpus import Gpu, is_in_use
from worker.host.inventory import Endpoint, host_info
from worker.host.space_watch import SpaceWatch
from worker.host.sshd import Sshd
from worker.host.topology import gpu_info
from worker.nursery.keeper import Nursery
from worker.periodic import PeriodicThread, Watched
from worker.slurm.pool_host import PoolHost

_log = logging.getLogger(__name__)
_WHOLE_PASS_S = 60.0  # the longest time between two of them


class Agent(PeriodicThread):
    """Reconciles rows and processes until it is stopped."""

    def __init__(
        self,
        sessions: Sessions,
        settings: Settings,
        *,
        launcher: Launcher,
        dispatcher: Dispatcher,
        gpus: Sequence[Gpu],
        devices: Devices,
        sshd: Sshd | None = None,
        space: SpaceWatch | None = None,
        pool: PoolHost | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        super().__init__("agent", period_s=settings.reconcile_period_s, rests_first=False)
        self._sessions = sessions
        self._settings = settings
        self._launcher = launcher
        self._dispatcher = dispatcher
        self._gpus = gpus
        self._devices = devices
        self._gpu_info = gpu_info(gpus)
        self._sshd = sshd
        self._space = space
        self._pool = pool
        self._nursery = nursery
        self._warm: dict[str, Any] = {}  # what is registered of it
        self._no_space: str | None = None  # as it is stored
        self._endpoint: Endpoint | None = None  # as it is registered
        self._is_out_of_service = False  # until its devices are known
        self._in_contact_since: float | None = None
        self._has_found_turn = False  # the lookout found work that any host may do
        self._database_clock = DatabaseClock(settings.lease_s / 4)
        self._heartbeat_at = 0.0
        self._whole_pass_at = float("-inf")
        self._keeper = AttemptKeeper(
            sessions, settings, launcher=launcher, leases_count=self._leases_count, meanwhile=self._send_heartbeat
        )

    def watched(self) -> Sequence[Watched]:
        """Attempts of this host. And those that are abandoned anywhere, and the queue.

        Slurm says things to a pool that are in no row, so a worker with a pool does not rest.
        """
        if self._pool is not None:
            return []
        abandoned = leases.some_are_abandoned(claim_timeout_s=self._settings.claim_timeout_s)
        return [
            Watched(has_attempts(self._settings.host), self.found),
            Watched(or_(abandoned, queue_has_work()), self._found_turn, PASSES_A_PERIOD),
        ]

    def rest_s(self) -> float:
        """Until the next heartbeat. A host that is not registered does not rest."""
        if self._in_contact_since is None:
            return 0.0
        return self._heartbeat_at + self._settings.heartbeat_period_s - time.monotonic()

    def _found_turn(self) -> None:
        self._has_found_turn = True
        self.found()

    def once(self) -> None:
        """One pass. As long as the lookout finds no work, most passes are only heartbeats."""
        is_whole = self._in_contact_since is None or time.monotonic() - self._whole_pass_at > _WHOLE_PASS_S
        if self._has_rested and not is_whole:
            self._launcher.reap()
            self._send_heartbeat()
        else:
            self.reconcile()
            self._whole_pass_at = time.monotonic()

    def failed(self, error: Exception) -> None:
        """Log the error. If the database was away, the host registers again, because the rows may have changed."""
        if isinstance(error, DBAPIError) and is_away(error) and not is_busy(error):
            self._in_contact_since = None
        super().failed(error)

    def reconcile(self) -> None:
        """Send the heartbeat, check the attempts of this host, end abandoned ones, and dispatch."""
        if self._in_contact_since is None:
            self._come_into_service()
        elif (self._sshd is not None and self._sshd.endpoint != self._endpoint) or self._warm != self._warm_facts():
            self._register()
        self._send_heartbeat()
        self._keeper.look_after_all()
        if self._pool is not None:
            self._pool.reconcile(leases_count=self._leases_count, meanwhile=self._send_heartbeat)
        if self._has_found_turn or self._dispatcher.has_turn():
            self._has_found_turn = False
            self._end_abandoned()
            self._dispatcher.run()

    def _come_into_service(self) -> None:
        """Register, as soon as it is known which slots this host offers.

        Until then it counts as lost: no job is placed on slots of an earlier worker, which may be others. Attempts that
        run here are looked after.
        """
        if self._devices.offer is not None:
            self._register()
            self._in_contact_since = self._heartbeat_at = time.monotonic()
        elif not self._is_out_of_service:
            with self._sessions.begin() as session:
                registration.leave(session, self._settings.host, host_timeout_s=self._settings.host_timeout_s)
            self._is_out_of_service = True

    def _leases_count(self, session: Session) -> bool:
        """Whether an expired lease means something. Make this the first statement of a transaction.

        Leases also expire while the database is away, and when its clock is set ahead. Then supervisors get time to
        renew them first.
        """
        if jump_s := self._database_clock.jump_s(session):
            _log.warning("the database's clock was set by %.1f s: leases get time to be renewed", jump_s)
            if self._in_contact_since is not None:
                self._in_contact_since = time.monotonic()
        since = self._in_contact_since
        return since is not None and time.monotonic() - since > self._settings.lease_s

    def _send_heartbeat(self) -> None:
        """Write the heartbeat of this host, if it is registered and it is time."""
        if self._in_contact_since is None:
            return
        now, folders = time.monotonic(), self._folders()
        problem = problem_of(folders or ())
        has_news = folders is not None and (problem is None) != (self._no_space is None)
        if has_news or now - self._heartbeat_at >= self._settings.heartbeat_period_s:
            with self._sessions.begin() as session:
                is_registered = registration.beat(session, self._settings.host, folders=folders)
            if not is_registered:  # the host was lost for so long that its row was removed
                self._register()
            self._heartbeat_at, self._no_space = now, problem

    def _folders(self) -> Sequence[FolderSpace] | None:
        return self._space.latest if self._space is not None else None

    def _register(self) -> None:
        self._endpoint = self._sshd.endpoint if self._sshd is not None else None
        offer = self._devices.offer
        assert offer is not None
        self._warm = self._warm_facts()
        info = host_info(self._settings, self._endpoint) | self._gpu_info | device_facts(offer) | self._warm
        address = self._endpoint.address if self._endpoint else None
        gpus = {gpu.uuid: gpu for gpu in self._gpus}
        slots = [slot if slot.uuid is None else _as_it_is_now(slot, gpus[slot.uuid]) for slot in offer.slots]
        with self._sessions.begin() as session:
            registration.register(session, self._settings.host, info, slots, address=address, folders=self._folders())
        _log.info("host %s registered with %d slots", self._settings.host, len(slots))

    def _warm_facts(self) -> dict[str, Any]:
        memory_bytes = self._nursery.memory_bytes if self._nursery is not None else None
        return {} if memory_bytes is None else {"warm_ranks_bytes": memory_bytes}

    def _end_abandoned(self) -> None:
        with self._sessions() as session:
            if not self._leases_count(session):
                return
            abandoned = leases.abandoned(
                session,
                host_timeout_s=self._settings.host_timeout_s,
                claim_timeout_s=self._settings.claim_timeout_s,
            )
        for attempt in abandoned:
            tags = {"job": attempt.lease.job_id, "attempt": attempt.lease.number, "host": attempt.host}
            _log.warning("attempt %d is abandoned: %s", attempt.lease.attempt_id, attempt.error, extra=tags)
            self._keeper.isolated(partial(self._end_expired, attempt), tags)
            self._send_heartbeat()

    def _end_expired(self, abandoned: AbandonedAttempt) -> None:
        with suppress(StaleLease):  # renewed or ended meanwhile
            self._keeper.end(abandoned.lease, abandoned.reason, abandoned.error, expired=True)


def _as_it_is_now(slot: SlotInfo, gpu: Gpu) -> SlotInfo:
    """A slot with what keeps jobs from its GPU at this moment."""
    return replace(slot, unhealthy=gpu.unhealthy, in_use=is_in_use(gpu.uuid))
