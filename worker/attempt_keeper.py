"""Keeps the rows and the processes of a host's attempts in step: starts supervisors, ends what lost its own, releases.

Used by the agent of a host, and by that of a Slurm pool, whose supervisors run here too. Every step is safe to repeat.
No step waits long. If a step fails for one attempt, the next pass tries again; other attempts are not affected.
"""

import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions, is_away, is_busy
from jobs.db.tables import Attempt, Slot
from jobs.intake.intake import Intake, read_exits
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, get_job
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.runtime.processes import ProcessId, mark_of
from jobs.runtime.settings import Settings
from worker.attempt.ending import Ending, judge
from worker.attempt.gpu_use import gpus_are_free
from worker.attempt.launcher import Launcher
from worker.attempt.leftovers import store_leftovers
from worker.attempt.notes import exits_in, read_notes
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_of_supervisors, sweep
from worker.attempt.script_ending import explaining_exits
from worker.attempt.slot_release import held_gpus, lost_gpus, release_slots
from worker.attempt.space_lookout import no_space_for
from worker.attempt.unsent_lines import take_unsent_lines

_log = logging.getLogger(__name__)
_STUCK_S = 0.5  # if a process outlives its kill for longer, the next pass kills it again: the heartbeat must not wait
_FAILED_FOR_ONE = "attempt %s could not be checked; the next pass tries again"


def has_attempts(host: str) -> ColumnElement[bool]:
    """Whether there are attempts that the keeper of a host looks after, as SQL.

    Written so that the database can only begin with the slots of the host: it must not read all that ended.
    """
    ended_at = select(Attempt.ended_at).where(Attempt.id == Slot.attempt_id).scalar_subquery()
    return or_(exists().where(_is_led_on(host)), exists().where(Slot.host == host, ended_at.is_not(None)))


def _is_led_on(host: str) -> ColumnElement[bool]:
    """Whether an attempt is live, and its lead is this host."""
    return (Attempt.host == host) & Attempt.ended_at.is_(None)


class AttemptKeeper:
    """The attempts of `settings.host`.

    `leases_count` says whether an expired lease means something. `meanwhile` is called between two attempts, and in
    long steps. `may_release` says of an attempt that ended whether its slots can be free, beside what is seen here.
    `is_elsewhere` says of a live one whether its supervisor runs on another machine: then only its lease counts.
    """

    def __init__(
        self,
        sessions: Sessions,
        settings: Settings,
        *,
        launcher: Launcher,
        leases_count: Callable[[Session], bool],
        meanwhile: Callable[[], None],
        may_release: Callable[[Session, Attempt], bool] = lambda session, attempt: True,
        is_elsewhere: Callable[[Session, Attempt], bool] = lambda session, attempt: False,
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._launcher = launcher
        self._leases_count = leases_count
        self._meanwhile = meanwhile
        self._may_release = may_release
        self._is_elsewhere = is_elsewhere

    def look_after_all(self) -> None:
        """Look once after every attempt of this host."""
        self._launcher.reap()
        for attempt, is_over in self._attempts():
            self.isolated(partial(self._look_after, attempt, is_over=is_over), self._tags(attempt))
            self._meanwhile()

    def isolated(self, action: Callable[[], None], tags: dict[str, object]) -> None:
        """Run `action` for the attempt with these tags. An error is logged and does not affect other attempts."""
        try:
            action()
        except DBAPIError as error:
            if is_away(error) and not is_busy(error):
                raise
            _log.exception(_FAILED_FOR_ONE, tags["attempt"], extra=tags)
        except Exception:
            _log.exception(_FAILED_FOR_ONE, tags["attempt"], extra=tags)

    def end(self, lease: Lease, reason: EndReason, error: str | None, *, expired: bool = False) -> None:
        """End an attempt; `expired`: only if nobody renewed its lease meanwhile. Raises `StaleLease`."""
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

    def _attempts(self) -> Sequence[tuple[Attempt, bool]]:
        """Live attempts whose lead is this host, and ended ones with slots here. With whether the lease expired."""
        this_host = self._settings.host
        holding = select(Slot.attempt_id).where(Slot.host == this_host, Slot.attempt_id.is_not(None))
        left_here = Attempt.ended_at.is_not(None) & Attempt.id.in_(holding)
        is_over = Attempt.lease_expires_at < func.now()
        with self._sessions() as session:
            leases_count = self._leases_count(session)
            here = or_(_is_led_on(this_host), left_here)
            rows = session.execute(select(Attempt, is_over).where(here).order_by(Attempt.id))
            return [(attempt, is_over and leases_count) for attempt, is_over in rows]

    def _look_after(self, attempt: Attempt, *, is_over: bool) -> None:
        if attempt.ended_at is not None:
            self._release(attempt)
        elif attempt.claimed_at is None:
            self._launcher.launch(attempt.id)
        elif is_over or not self._is_supervised(attempt):
            self._end_unsupervised(attempt, "was stopped for longer than its lease" if is_over else "died")
            self._release(attempt)

    def _is_supervised(self, attempt: Attempt) -> bool:
        """Whether its supervisor is alive. One that was not recorded, or runs elsewhere, is until the lease expires."""
        process = supervisor_of(attempt)
        if process is None or process.is_alive:
            return True
        with self._sessions() as session:
            return self._is_elsewhere(session, attempt)

    def _end_unsupervised(self, attempt: Attempt, fault: str) -> None:
        """End an attempt without a working supervisor: its processes, then its row, by its exit records."""
        _log.warning("the supervisor of attempt %d %s", attempt.id, fault, extra=self._tags(attempt))
        stopped_at = time.time()
        self._sweep(attempt)
        lease = Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)
        paths = paths_of(self._settings.runs_dir, attempt.job_id, attempt.number)
        with suppress(StaleLease):  # the attempt ended by itself meanwhile
            store_leftovers(self._sessions, lease, self._settings.runs_dir, meanwhile=self._meanwhile)
            take_unsent_lines(paths, meanwhile=self._meanwhile)
            with self._sessions() as session:
                ranks = spec_from(get_job(session, attempt.job_id).spec).ranks_on(attempt.gpus)
            intake = Intake(self._sessions, lease, paths, ranks=ranks)
            intake.drain(meanwhile=self._meanwhile)
            ending = _ending_of(
                attempt, paths, f"the supervisor {fault}", intake, ranks=ranks,
                stopped_at=stopped_at, no_space=no_space_for(paths, self._settings),
            )  # fmt: skip
            paths.tidy(self._settings.script_user)
            self.end(lease, ending.reason, ending.without_folders(self._settings.datasets, self._settings.home).error)

    def _sweep(self, attempt: Attempt) -> bool:
        """Kill the remaining processes of an attempt here, and its supervisor. Returns whether none is left.

        A supervisor that is still alive was stopped or hung for longer than its lease. It is stopped first, because it
        could start `horovodrun` at any moment. It is killed last, because its children may lack the mark.
        """
        mark = mark_of(attempt.job_id, attempt.number)
        supervisors = self._supervisors_of(attempt, mark)
        for supervisor in supervisors:
            supervisor.signal(signal.SIGSTOP)
        clean = sweep(mark, timeout_s=_STUCK_S, below=[supervisor.pid for supervisor in supervisors])
        for supervisor in supervisors:
            supervisor.signal(signal.SIGKILL)
        return clean

    def _supervisors_of(self, attempt: Attempt, mark: str) -> list[ProcessId]:
        """The living supervisors here. A worker that died in a launch left one that no row records."""
        if attempt.host != self._settings.host:
            return []
        processes = {supervisor_of(attempt), *map(ProcessId.of, pids_of_supervisors(mark))}
        return [process for process in processes if process is not None and process.is_alive]

    def _release(self, attempt: Attempt) -> None:
        """Release the slots of an ended attempt, if none of its processes is left here."""
        this_host, clean = self._settings.host, self._sweep(attempt)
        with self._sessions() as session:
            if not self._may_release(session, attempt):
                return
            gpus = held_gpus(session, attempt.id, host=this_host)
        clean = clean and gpus_are_free(gpus, within_s=_STUCK_S)
        if not clean:
            _log.warning(
                "a process of attempt %d is still alive: its slots are quarantined",
                attempt.id,
                extra=self._tags(attempt),
            )
        lost_uuids = lost_gpus(gpus)
        with self._sessions.begin() as session:
            release_slots(session, attempt.id, host=this_host, clean=clean, lost_uuids=lost_uuids)

    def _tags(self, attempt: Attempt) -> dict[str, object]:
        return {"job": attempt.job_id, "attempt": attempt.number, "host": self._settings.host}


def supervisor_of(attempt: Attempt) -> ProcessId | None:
    """The process that supervises or supervised the attempt. None if it was not recorded."""
    pid, start_ticks = attempt.supervisor_pid, attempt.supervisor_start_ticks
    return None if pid is None or start_ticks is None else ProcessId(pid, start_ticks)


def _ending_of(
    attempt: Attempt,
    paths: AttemptPaths,
    fault: str,
    intake: Intake,
    *,
    ranks: int,
    stopped_at: float,
    no_space: str | None,
) -> Ending:
    """Why an attempt without a supervisor ended: the reason that its ranks recorded, else the missing supervisor."""
    exits, started = read_exits(paths, ranks=ranks)
    exits = exits_in(read_notes(paths.records, range(ranks))) | exits
    if intake.is_script:
        exits = explaining_exits(exits, launcher_says="", stopped_at=stopped_at, has_saved=intake.has_saved)
    # A supervisor that dies before its first rank starts may do so every time. So this uses up a restart.
    unwatched = EndReason.LEASE_EXPIRED if attempt.started_at or started else EndReason.LAUNCH_FAILED
    return judge(
        exits,
        ranks=ranks,
        started=started,
        stopped_for=Ending(unwatched, fault),
        launcher_code=None,
        launcher_says="",
        per_gpu_batch=None if intake.is_script else intake.plan.per_gpu_batch,
        no_space=no_space,
    )
