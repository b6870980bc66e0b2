"""The agent of a host: a thread of its worker that keeps the rows and the host's processes in step.

Once a period it sends the host's heartbeat, ends attempts whose supervisor died, starts supervisors whose launch
message got lost, gives back slots whose processes are gone, ends what other hosts abandoned, and dispatches.
Every step is safe to repeat and safe to run on several hosts at once.
"""

import logging
import platform
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
from sqlalchemy import or_, select
from sqlalchemy.exc import OperationalError

from jobs import leases, registration
from jobs.database import Sessions
from jobs.leases import StaleLease
from jobs.processes import ProcessId, mark_of
from jobs.registration import SlotInfo
from jobs.settings import Settings
from jobs.states import EndReason
from jobs.store import Lease
from jobs.tables import Attempt, Slot
from worker.dispatcher import Dispatcher
from worker.gpus import Gpu
from worker.intake import Intake
from worker.launcher import Launcher, paths_of
from worker.processes import sweep

_log = logging.getLogger(__name__)
_STUCK_S = 0.5  # a process that outlives its kill for longer is for the next pass: the heartbeat must not wait


def slots_of(gpus: Sequence[Gpu], cpu_slots: int) -> list[SlotInfo]:
    """A slot for each GPU; `cpu_slots` CPU shares where there is none."""
    if gpus:
        return [SlotInfo(gpu.index, "gpu", gpu.name, gpu.uuid, gpu.memory_bytes) for gpu in gpus]
    return [SlotInfo(index, "cpu", "CPU share") for index in range(cpu_slots)]


class Agent(threading.Thread):
    """Reconciles until it is stopped."""

    def __init__(
        self, sessions: Sessions, settings: Settings, *, launcher: Launcher, dispatcher: Dispatcher, gpus: list[Gpu]
    ) -> None:
        super().__init__(name="agent", daemon=True)
        self._sessions = sessions
        self._settings = settings
        self._launcher = launcher
        self._dispatcher = dispatcher
        self._gpus = gpus
        self._stopped = threading.Event()
        self._in_contact_since: float | None = None
        self._beaten_at = 0.0

    def run(self) -> None:
        """Reconcile once a period; what fails is tried again in the next one."""
        while True:
            try:
                self.reconcile()
            except OperationalError as error:
                self._in_contact_since = None
                _log.warning("the database is away: %s", error.orig)
            except Exception:
                _log.exception("a reconciliation failed; the next one is tried")
            if self._stopped.wait(self._settings.reconcile_period_s):
                return

    def stop(self) -> None:
        """End after the pass at hand."""
        self._stopped.set()

    def reconcile(self) -> None:
        """One pass."""
        now = time.monotonic()
        if self._in_contact_since is None:
            self._register()
            self._in_contact_since = self._beaten_at = now
        if now - self._beaten_at >= self._settings.heartbeat_period_s:
            with self._sessions.begin() as session:
                registration.beat(session, self._settings.host)
            self._beaten_at = now
        self._launcher.reap()
        for attempt in self._attempts():
            if attempt.ended_at is not None:
                self._release(attempt)
            elif attempt.claimed_at is None:
                self._launcher.launch(attempt.id)
            elif not self._is_supervised(attempt):
                self._end_unsupervised(attempt)
                self._release(attempt)
        # Leases ran out while the database was away; their supervisors get the time to renew them first.
        if time.monotonic() - self._in_contact_since > self._settings.lease_s:
            self._end_abandoned()
        self._dispatcher.run()

    def _attempts(self) -> Sequence[Attempt]:
        """This host's live attempts, and the ended ones that still hold slots, oldest first."""
        here = self._settings.host
        holding = select(Slot.attempt_id).where(Slot.host == here, Slot.attempt_id.is_not(None))
        live_or_holding = or_(Attempt.ended_at.is_(None), Attempt.id.in_(holding))
        with self._sessions() as session:
            return session.scalars(
                select(Attempt).where(Attempt.host == here, live_or_holding).order_by(Attempt.id)
            ).all()

    def _register(self) -> None:
        info = {
            "cores": psutil.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "python": platform.python_version(),
            "system": platform.platform(),
        }
        slots = slots_of(self._gpus, self._settings.cpu_slots)
        with self._sessions.begin() as session:
            registration.register(session, self._settings.host, info, slots)
        _log.info("host %s registered with %d slots", self._settings.host, len(slots))

    def _is_supervised(self, attempt: Attempt) -> bool:
        """Whether its supervisor lives; one whose process nobody noted has until its lease runs out."""
        pid, start_ticks = attempt.supervisor_pid, attempt.supervisor_start_ticks
        return pid is None or start_ticks is None or ProcessId(pid, start_ticks).is_alive

    def _end_unsupervised(self, attempt: Attempt) -> None:
        """End an attempt whose supervisor is gone, after its processes."""
        _log.warning("the supervisor of attempt %d died; its ranks are killed", attempt.id)
        sweep(mark_of(attempt.job_id, attempt.number))
        lease = Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)
        # One that dies before its first rank comes up may do so every time: that uses up a restart.
        reason = EndReason.LEASE_EXPIRED if attempt.started_at else EndReason.LAUNCH_FAILED
        with suppress(StaleLease):  # it ended by itself meanwhile
            self._store_rest(attempt, lease)
            self._end(lease, reason, "the supervisor died")

    def _store_rest(self, attempt: Attempt, lease: Lease) -> None:
        """What the ranks wrote that their supervisor did not live to store."""
        paths = paths_of(self._settings.runs_dir, attempt.job_id, attempt.number)
        Intake(self._sessions, lease, paths, ranks=attempt.gpus).drain()
        shutil.rmtree(paths.scratch, ignore_errors=True)

    def _release(self, attempt: Attempt) -> None:
        """Give back the slots of an ended attempt, once no process of it is left here."""
        clean = sweep(mark_of(attempt.job_id, attempt.number), timeout_s=_STUCK_S)
        with self._sessions.begin() as session:
            if clean:
                leases.release(session, attempt.id, host=self._settings.host)
            else:
                leases.quarantine(session, attempt.id, host=self._settings.host)

    def _end_abandoned(self) -> None:
        with self._sessions() as session:
            lost = leases.abandoned(
                session,
                host_timeout_s=self._settings.host_timeout_s,
                claim_timeout_s=self._settings.claim_timeout_s,
            )
        for attempt in lost:
            _log.warning("attempt %d is abandoned: %s", attempt.lease.attempt_id, attempt.error)
            try:
                self._end(attempt.lease, attempt.reason, attempt.error, expired=True)
            except StaleLease:
                continue  # renewed or ended meanwhile

    def _end(self, lease: Lease, reason: EndReason, error: str, *, expired: bool = False) -> None:
        with self._sessions.begin() as session:
            if expired:
                leases.fence_expired(session, lease)
            leases.end(
                session,
                lease,
                reason,
                error=error,
                backoff_s=self._settings.restart_backoff_s,
                backoff_limit_s=self._settings.restart_backoff_limit_s,
            )
