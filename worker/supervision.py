"""Watching one attempt to its end: store what the ranks write, obey, keep the lease, judge, clean up.

Runs in the supervisor's process. Every write is fenced by the lease: when that is stale the ranks are killed and
nothing more is written. A database that is away is waited for, as long as the lease can still be good.
"""

import logging
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import OperationalError

from jobs import leases
from jobs.database import Sessions, engine_for, sessions_for
from jobs.hints import Hints
from jobs.leases import StaleLease
from jobs.logs import configure_logging
from jobs.processes import ProcessId, mark_of
from jobs.settings import Settings, settings
from jobs.spec import Spec, spec_from
from jobs.states import EndReason
from jobs.store import Lease, get_job
from worker.intake import Intake
from worker.launcher import AttemptPaths, SupervisorOrder, paths_of
from worker.processes import sweep
from worker.stopping import stop
from worker.verdict import Verdict, verdict

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

_PERIOD_S = 0.1  # between two looks at the processes
_STORE_PERIOD_S = 1.0  # between two transactions; the ranks share their cores with this process
_LEAVE_GRACE_S = 3.0  # for the launcher and the other ranks, once a rank is gone


def supervise(order: SupervisorOrder, launcher: "subprocess.Popen[bytes]") -> int:
    """Watch the attempt until no process of it is left and its end is stored. Returns the exit code."""
    configure_logging("supervisor", job=order.job_id, attempt=order.number)
    config = settings()
    sessions = sessions_for(engine_for(config.database_url, pool_size=1))
    try:
        supervision = Supervision(order, launcher, sessions, config)
        signal.signal(signal.SIGTERM, lambda *_: supervision.leave("the host is shutting down"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        supervision.run()
    except StaleLease:
        _log.warning("the lease is no longer ours: the ranks are killed, nothing more is written")
        sweep(mark_of(order.job_id, order.number))
        return 1
    hints = Hints(config.broker_url)
    hints.dispatch()
    hints.close()
    return 0


@dataclass
class _Deadlines:
    """When what was last done, on the monotonic clock."""

    started: float
    renewed: float
    ordered: float = 0.0
    stored: float = 0.0
    moved: float = 0.0  # the last time a step was seen
    rank_gone: float | None = None


class Supervision:
    """One attempt, from the launcher's start to the release of its slots."""

    def __init__(
        self, order: SupervisorOrder, launcher: "subprocess.Popen[bytes]", sessions: Sessions, config: Settings
    ) -> None:
        self._lease: Lease = order.lease
        self._launcher = launcher
        self._sessions = sessions
        self._config = config
        self._mark = mark_of(order.job_id, order.number)
        self._paths: AttemptPaths = paths_of(config.runs_dir, order.job_id, order.number)
        self._ranks = int(order.argv[order.argv.index("-np") + 1])
        now = time.monotonic()
        self._at = _Deadlines(started=now, renewed=now, moved=now)
        self._leaving: str | None = None
        self._intake: Intake = self._patiently(lambda: Intake(sessions, self._lease, self._paths, ranks=self._ranks))
        self._spec: Spec = self._patiently(self._read_spec)

    def leave(self, why: str) -> None:
        """Save, give the job back to the queue, and end (from a signal handler)."""
        self._leaving = why

    def run(self) -> None:
        """Watch, stop what is left, judge, store the end. Raises `StaleLease`."""
        try:
            ended, clean = self._to_the_end()
        except StaleLease:
            raise
        except Exception as error:
            _log.exception("the supervision failed")
            clean = sweep(self._mark)
            ended = Verdict(EndReason.INTERNAL_ERROR, f"the supervisor failed: {type(error).__name__}: {error}")
        _log.info("attempt ended: %s %s", ended.reason, ended.error or "")
        shutil.rmtree(self._paths.scratch, ignore_errors=True)
        self._patiently(lambda: self._store_end(ended, clean=clean))

    def _to_the_end(self) -> tuple[Verdict, bool]:
        """The verdict, and whether no process is left."""
        stopped_for = self._watch()
        clean = self._stop(stopped_for)
        self._launcher.poll()
        self._patiently(self._intake.drain)
        return verdict(
            self._intake.exits,
            ranks=self._ranks,
            started=len(self._intake.pids),
            stopped_for=stopped_for,
            launcher_code=self._launcher.returncode,
            launcher_says=_last_lines(self._paths.launcher_log),
            per_gpu_batch=self._intake.plan.per_gpu_batch,
        ), clean

    def _watch(self) -> Verdict | None:
        """Until the launcher is gone or there is a reason to stop it."""
        while self._launcher.poll() is None:
            self._look()
            reason = self._reason_to_stop()
            if reason is not None:
                return reason
            if self._rank_gone_for(_LEAVE_GRACE_S):
                return None  # the others hang without it, or the launcher does
            time.sleep(_PERIOD_S)
        return None

    def _look(self) -> None:
        """Store what is new, and renew the lease when it is time. A database that is away is for later."""
        now = time.monotonic()
        if now - self._at.renewed > self._config.lease_s:
            raise StaleLease(self._lease)
        try:
            if now - self._at.stored >= _STORE_PERIOD_S:
                self._at.stored = now
                seen = self._intake.steps_seen
                self._intake.store_new()
                if self._intake.steps_seen != seen:
                    self._at.moved = now
            if now - self._at.renewed >= self._config.lease_renewal_s:
                with self._sessions.begin() as session:
                    leases.renew(session, self._lease, lease_s=self._config.lease_s)
                self._at.renewed = now
        except OperationalError as error:
            _log.warning("the database is away: %s", error.orig)

    def _reason_to_stop(self) -> Verdict | None:
        now = time.monotonic()
        if self._leaving is not None:
            return Verdict(EndReason.HOST_LOST, self._leaving)
        if now - self._at.ordered >= self._config.orders_period_s:
            self._at.ordered = now
            if self._cancel_requested():
                return Verdict(EndReason.CANCELLED)
        limit = self._spec.time_limit_s
        if limit is not None and now - self._at.started > limit:
            return Verdict(EndReason.TIME_LIMIT, f"still running after its time limit of {limit:g} s")
        if now - self._at.moved > self._spec.stall_timeout_s and not self._intake.exits:
            return Verdict(EndReason.STALLED, f"no step from any rank for {self._spec.stall_timeout_s:g} s")
        return None

    def _cancel_requested(self) -> bool:
        try:
            with self._sessions() as session:
                return leases.orders(session, self._lease).cancel_requested
        except OperationalError:
            return False  # `_look` has told of it

    def _rank_gone_for(self, limit_s: float) -> bool:
        """Whether a rank has been gone for `limit_s` while the launcher still runs."""
        gone = any(rank in self._intake.exits or ProcessId.of(pid) is None for rank, pid in self._intake.pids.items())
        if not gone:
            self._at.rank_gone = None
        elif self._at.rank_gone is None:
            self._at.rank_gone = time.monotonic()
        return self._at.rank_gone is not None and time.monotonic() - self._at.rank_gone > limit_s

    def _stop(self, reason: Verdict | None) -> bool:
        return stop(
            self._mark,
            stop_file=self._paths.stop_file if reason is not None else None,
            stop_file_grace_s=self._config.stop_file_grace_s,
            sigterm_grace_s=self._config.sigterm_grace_s,
            meanwhile=self._meanwhile,
        )

    def _meanwhile(self) -> None:
        self._launcher.poll()  # reaps it, so that it does not count as a process that is left
        self._look()

    def _store_end(self, ended: Verdict, *, clean: bool) -> None:
        with self._sessions.begin() as session:
            leases.end(
                session,
                self._lease,
                ended.reason,
                error=ended.error,
                backoff_s=self._config.restart_backoff_s,
                backoff_limit_s=self._config.restart_backoff_limit_s,
            )
            if clean:
                leases.release(session, self._lease.attempt_id, host=self._config.host)
            else:
                leases.quarantine(session, self._lease.attempt_id, host=self._config.host)

    def _read_spec(self) -> Spec:
        with self._sessions() as session:
            return spec_from(get_job(session, self._lease.job_id).spec)

    def _patiently(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` until the database answers, for as long as the lease can be good. Raises `StaleLease`."""
        while True:
            try:
                return action()
            except OperationalError as error:
                if time.monotonic() - self._at.renewed > self._config.lease_s:
                    raise StaleLease(self._lease) from error
                _log.warning("the database is away: %s", error.orig)
                time.sleep(0.5)


def _last_lines(path: Path, count: int = 5) -> str:
    try:
        return " | ".join(path.read_text("utf-8", "replace").splitlines()[-count:])
    except FileNotFoundError:
        return ""
