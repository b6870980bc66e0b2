"""Watching one attempt to its end: store what the ranks write, obey, keep the lease, judge, clean up.

Runs in the supervisor's process. Every write is fenced by the lease: when that is stale, or could not be renewed in
time, the ranks are killed and nothing more is written.
"""

import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, engine_for, is_away, sessions_for
from jobs.db.tables import Attempt
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, get_job
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.processes import ProcessId, mark_of
from jobs.runtime.settings import Settings, settings
from worker.attempt.intake import Intake
from worker.attempt.launcher import SupervisorOrder
from worker.attempt.leftovers import store_leftovers
from worker.attempt.members import Members
from worker.attempt.niceness import be_polite
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import is_stopped
from worker.attempt.renewal import Renewal
from worker.attempt.slot_release import give_back, gpus_are_free, gpus_held, lost_gpus
from worker.attempt.stopping import Graces, Here, stop
from worker.attempt.verdict import Verdict, requested_end, verdict

_log = logging.getLogger(__name__)

_PERIOD_S = 0.1  # between two looks at the processes
_STORE_PERIOD_S = 1.0  # between two transactions; the ranks share their cores with this process
_LEAVE_GRACE_S = 3.0  # for the launcher and the other ranks, once a rank is gone
_SAVED_FIRST = frozenset({EndReason.PAUSED, EndReason.PREEMPTED, EndReason.HOST_LOST})


def supervise(
    order: SupervisorOrder,
    launcher: "subprocess.Popen[bytes]",
    members: Members | None = None,
    *,
    asked_to_leave: Collection[int] = (),
) -> int:
    """Watch the attempt until no process of it is left and its end is stored. Returns the exit code.

    `asked_to_leave` is filled by the handler of SIGTERM, which was there before this module.
    """
    config, members = settings(), members or Members()
    configure_logging("supervisor", job=order.job_id, attempt=order.number, host=config.host)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sessions = sessions_for(engine_for(config.database_url, pool_size=1, patience_s=config.database_patience_s))
    supervision = Supervision(order, launcher, members, sessions, config, asked_to_leave)
    threading.Thread(target=supervision.kill_when_over, name="dead-man-switch", daemon=True).start()
    try:
        supervision.run()
    except StaleLease:
        _log.warning("the lease is no longer ours: the ranks are killed, nothing more is written")
        supervision.kill()
        return 1
    finally:
        members.close()
    hints = Hints(config.broker_url)
    hints.dispatch()
    hints.close()
    return 0


class Supervision:
    """One attempt, from the launcher's start to the release of its slots."""

    def __init__(
        self,
        order: SupervisorOrder,
        launcher: "subprocess.Popen[bytes]",
        members: Members,
        sessions: Sessions,
        config: Settings,
        asked_to_leave: Collection[int] = (),
    ) -> None:
        self._lease: Lease = order.lease
        self._launcher = launcher
        self._members = members
        self._sessions = sessions
        self._config = config
        self._asked_to_leave = asked_to_leave
        self._paths: AttemptPaths = paths_of(config.runs_dir, order.job_id, order.number)
        self._here = Here(mark_of(order.job_id, order.number), self._paths.stop_file, launcher.pid, members.pids)
        self._renewal = Renewal(sessions, order.lease, config, self._paths.lease_file, members)
        self._started_at = self._moved_at = time.monotonic()  # moved: the last time a step was seen
        self._ordered_at = self._stored_at = 0.0
        self._rank_gone_at: float | None = None
        self._ranks_here: dict[int, ProcessId | None] = {}
        self._gpus: list[str] = []

    def run(self) -> None:
        """Watch, stop what is left, judge, store the end. Raises `StaleLease`."""
        try:
            ended, clean = self._to_the_end()
        except StaleLease:
            raise
        except Exception as error:
            self._renewal.check()  # whatever failed, it may have been long ago: this process can have been stopped
            _log.exception("the supervision failed")
            clean = self.kill()
            ended = Verdict(EndReason.INTERNAL_ERROR, f"the supervisor failed: {type(error).__name__}: {error}")
        _log.info("attempt ended: %s %s", ended.reason, ended.error or "")
        shutil.rmtree(self._paths.scratch, ignore_errors=True)
        clean = clean and gpus_are_free(self._gpus)
        lost = lost_gpus(self._gpus)
        self._renewal.patiently(lambda: self._store_end(ended, clean=clean, lost=lost))

    def kill_when_over(self) -> None:
        """Kill everything once the lease is over, and this process too: its main thread may wait for the database."""
        while not self._renewal.is_over:
            time.sleep(_PERIOD_S)
        self.kill()
        time.sleep(_LEAVE_GRACE_S)
        os._exit(1)

    def kill(self) -> bool:
        """Kill every process of the attempt on all hosts; whether none is left on this one."""
        nothing = Graces(stop_file_s=None, hurried_s=0.0, sigterm_s=0.0, sigkill_s=self._config.sigkill_grace_s)
        self._members.signal(signal.SIGKILL)
        return stop([self._here], nothing, meanwhile=self._reap)

    def _to_the_end(self) -> tuple[Verdict, bool]:
        """The verdict, and whether no process is left on this host."""
        self._renewal.patiently(self._begin)
        be_polite()  # no sooner: on a busy host all that it took to come here could last longer than the lease
        stopped_for = self._watch()
        clean = self._stop(stopped_for)
        lost = self._members.lost()
        if stopped_for is None and lost is not None:
            stopped_for = Verdict(EndReason.HOST_LOST, lost)  # it was seen by its ranks first
        self._wait_for_lines()
        self._renewal.patiently(lambda: self._intake.drain(meanwhile=self._renewal.keep))
        return verdict(
            self._intake.exits,
            ranks=self._ranks,
            started=len(self._intake.pids),
            stopped_for=stopped_for,
            launcher_code=self._launcher.returncode,
            launcher_says=_last_lines(self._paths.launcher_log),
            per_gpu_batch=self._intake.plan.per_gpu_batch,
        ), clean

    def _begin(self) -> None:
        """Read what there is to know, and store what an earlier attempt left."""
        with self._sessions() as session:
            attempt = session.get_one(Attempt, self._lease.attempt_id)
            self._spec: Spec = spec_from(get_job(session, self._lease.job_id).spec)
            self._gpus = gpus_held(session, self._lease.attempt_id, host=self._config.host)
        self._ranks = attempt.gpus
        self._lead_ranks = range(len(attempt.shares[0]["slots"]))
        self._intake = Intake(self._sessions, self._lease, self._paths, ranks=attempt.gpus)
        store_leftovers(self._sessions, self._lease, self._config.runs_dir, meanwhile=self._renewal.keep)

    def _watch(self) -> Verdict | None:
        """Until the launcher is gone or there is a reason to stop it."""
        while self._launcher.poll() is None:
            self._look()
            reason = self._reason_to_stop()
            if reason is not None:
                return reason
            if self._rank_gone_for(_LEAVE_GRACE_S):
                return None  # the others hang without it, or the launcher does
            self._here.reap()
            time.sleep(_PERIOD_S)
        return None

    def _look(self) -> None:
        """Store what is new, and renew the lease when it is time. A database that is away is for later."""
        try:
            self._renewal.keep()
            if time.monotonic() - self._stored_at >= _STORE_PERIOD_S:
                self._stored_at = time.monotonic()
                self._store_new()
        except DBAPIError as error:
            if not is_away(error):
                raise
            _log.warning("the database is away: %s", error.orig)

    def _store_new(self) -> None:
        seen = self._intake.steps_seen
        try:
            self._intake.store_new()
        finally:
            if self._intake.steps_seen != seen:  # read, if not stored
                self._moved_at = time.monotonic()

    def _reason_to_stop(self) -> Verdict | None:
        if self._asked_to_leave:
            return Verdict(EndReason.HOST_LOST, f"host {self._config.host} is shutting down")
        if (lost := self._members.lost()) is not None:
            return Verdict(EndReason.HOST_LOST, lost)
        if (told := self._ordered()) is not None:
            return told
        now, limit = time.monotonic(), self._spec.time_limit_s
        if limit is not None and now - self._started_at > limit:
            return Verdict(EndReason.TIME_LIMIT, f"still running after its time limit of {limit:g} s")
        if now - self._moved_at > self._spec.stall_timeout_s and not self._intake.exits:
            return Verdict(EndReason.STALLED, self._stalled())
        return None

    def _ordered(self) -> Verdict | None:
        """What the rest of the world wants, asked once a period."""
        if time.monotonic() - self._ordered_at < self._config.orders_period_s:
            return None
        self._ordered_at = time.monotonic()
        try:
            with self._sessions() as session:
                return requested_end(leases.stop_requests(session, self._lease))
        except DBAPIError as error:
            if not is_away(error):
                raise
            return None  # `_look` tells of it

    def _stalled(self) -> str:
        still = [str(rank) for rank in self._lead_ranks if is_stopped(self._intake.pids.get(rank, 0))]
        stopped = f"; stopped by a signal: rank {', '.join(still)}" if still else ""
        return f"no step from any rank for {self._spec.stall_timeout_s:g} s{stopped}"

    def _rank_gone_for(self, limit_s: float) -> bool:
        """Whether a rank has been gone for `limit_s` while the launcher still runs.

        Those on other hosts have pids of other hosts: they are gone when they said so.
        """
        for rank, pid in self._intake.pids.items():
            if rank in self._lead_ranks and rank not in self._ranks_here:
                self._ranks_here[rank] = ProcessId.of(pid)
        dead = any(process is None or not process.is_alive for process in self._ranks_here.values())
        if not dead and not self._intake.exits:
            self._rank_gone_at = None
        elif self._rank_gone_at is None:
            self._rank_gone_at = time.monotonic()
        return self._rank_gone_at is not None and time.monotonic() - self._rank_gone_at > limit_s

    def _stop(self, reason: Verdict | None) -> bool:
        """End what is left, in order; whether nothing is left on this host."""
        config = self._config
        # Ranks that wait for a host that is lost, or stand still, have nothing to save.
        saves = reason is not None and reason.reason in _SAVED_FIRST and self._members.lost() is None
        asked_s = config.save_grace_s if saves else config.stop_file_grace_s
        graces = Graces(
            stop_file_s=asked_s if reason is not None else None,
            hurried_s=config.stop_file_grace_s,
            sigterm_s=config.sigterm_grace_s,
            sigkill_s=config.sigkill_grace_s,
        )
        return stop([self._here, self._members], graces, meanwhile=self._meanwhile) or self._here.are_gone()

    def _meanwhile(self) -> bool:
        """Whether someone has asked for a cancel by now: nobody wants what the ranks save."""
        self._reap()
        self._look()
        told = self._ordered()
        return self._members.lost() is not None or (told is not None and told.reason is EndReason.CANCELLED)

    def _reap(self) -> bool:
        self._launcher.poll()  # so that it does not count as a process that is left
        return False

    def _wait_for_lines(self) -> None:
        """Until the other hosts have sent all that their ranks wrote, or for as long as that may take."""
        give_up_at = time.monotonic() + self._config.sigkill_grace_s
        while len(self._members.clean()) < len(self._members.hosts) and time.monotonic() < give_up_at:
            if self._members.lost() is not None:
                return
            self._look()
            time.sleep(_PERIOD_S)

    def _store_end(self, ended: Verdict, *, clean: bool, lost: Sequence[str]) -> None:
        with self._sessions.begin() as session:
            leases.end(
                session,
                self._lease,
                ended.reason,
                error=ended.error,
                backoff_s=self._config.restart_backoff_s,
                backoff_limit_s=self._config.restart_backoff_limit_s,
            )
            give_back(session, self._lease.attempt_id, host=self._config.host, clean=clean, lost=lost)
            for host in self._members.clean():
                leases.release(session, self._lease.attempt_id, host=host)


def _last_lines(path: Path, count: int = 5) -> str:
    try:
        return " | ".join(path.read_text("utf-8", "replace").splitlines()[-count:])
    except FileNotFoundError:
        return ""
