"""Supervises one attempt to its end: stores what the ranks write, obeys requests, renews the lease, judges, cleans up.

Runs in the supervisor's process. Every write is fenced by the lease. When that is stale, or could not be renewed in
time, the ranks are killed and nothing more is written.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, cause_in_words, engine_for, is_away, sessions_for
from jobs.db.tables import Attempt
from jobs.insight.studies.judging import OwnTrial
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, get_job, touch
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason
from jobs.runtime.files import bytes_below
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.processes import mark_of
from jobs.runtime.settings import Settings, settings
from jobs.runtime.space import is_full
from jobs.scheduling.allocations import blame
from worker.attempt.ending import Ending, judge, requested_ending
from worker.attempt.gpu_use import gpus_are_free
from worker.attempt.leftovers import store_leftovers
from worker.attempt.log_file import last_lines
from worker.attempt.members import Members
from worker.attempt.niceness import be_polite
from worker.attempt.node_samples import NodeSamples
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.rank_watch import RankWatch
from worker.attempt.renewal import Renewal
from worker.attempt.script_ending import explaining_exits
from worker.attempt.slot_release import held_gpus, lost_gpus, release_slots
from worker.attempt.slurm_steps import slurm_trouble
from worker.attempt.space_lookout import SpaceLookout, no_space_for
from worker.attempt.stopping import Graces, LocalProcesses, stop
from worker.attempt.supervisor_task import SupervisorTask
from worker.nursery.becoming import Forked

_log = logging.getLogger(__name__)

_PERIOD_S = 0.1  # between two looks at the processes
_STORE_PERIOD_S = 1.0  # between two transactions; the ranks share their cores with this process
_STORE_TRIAL_PERIOD_S = 0.25  # the same for a trial that may be pruned, which holds its slots until it is judged
_LEAVE_GRACE_S = 3.0  # for the launcher and the other ranks, after a rank has exited
_NODES_TAKEN = Ending(EndReason.PREEMPTED, "Slurm takes its nodes back")
_SAVES_FIRST = frozenset({EndReason.PAUSED, EndReason.PREEMPTED, EndReason.HOST_LOST, EndReason.PRUNED})


def supervise(
    task: SupervisorTask,
    launcher: "subprocess.Popen[bytes] | Forked",
    members: Members | None = None,
    *,
    leave_signals: Collection[int] = (),
) -> int:
    """Watch the attempt until none of its processes is left and its end is stored. Returns the exit code.

    The handler of SIGTERM, which was installed before this module was imported, fills `leave_signals`.
    """
    config, members = settings(), members or Members()
    configure_logging("supervisor", job=task.job_id, attempt=task.number, host=config.host)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sessions = sessions_for(engine_for(config.database_url, pool_size=1, patience_s=config.database_patience_s))
    supervision = Supervision(task, launcher, members, sessions, config, leave_signals)
    threading.Thread(target=supervision.kill_when_lease_is_over, name="dead-man-switch", daemon=True).start()
    try:
        supervision.run()
    except StaleLease:
        _log.warning("the lease was lost: the ranks are killed, nothing more is written")
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
        task: SupervisorTask,
        launcher: "subprocess.Popen[bytes] | Forked",
        members: Members,
        sessions: Sessions,
        config: Settings,
        leave_signals: Collection[int] = (),
    ) -> None:
        self._lease: Lease = task.lease
        self._in_pool = task.in_pool
        self._leaving_file = Path(task.leaving_file)
        self._launcher = launcher
        self._members = members
        self._sessions = sessions
        self._config = config
        self._leave_signals = leave_signals
        self._paths: AttemptPaths = paths_of(config.runs_dir, task.job_id, task.number)
        self._local = LocalProcesses(
            mark_of(task.job_id, task.number), self._paths.stop_file, launcher.pid, members.pids
        )
        self._renewal = Renewal(sessions, task.lease, config, self._paths.lease_file, members)
        self._started_at = time.monotonic()
        self._requests_read_at = self._stored_at = 0.0
        self._gpus: list[str] = []
        self._stopped_at: float | None = None  # on the clock of the ranks' records

    def run(self) -> None:
        """Watch, stop the remaining processes, judge, and store the end. Raises `StaleLease`."""
        try:
            ending, clean = self._watch_to_end()
        except StaleLease:
            raise
        except Exception as error:
            self._renewal.check()  # the error may be old: this process may have been stopped meanwhile
            _log.exception("the supervision failed")
            clean = self.kill()
            ending = Ending(EndReason.INTERNAL_ERROR, f"the supervisor failed: {cause_in_words(error)}")
            if is_full(error):
                ending = Ending(EndReason.NO_SPACE, f"host {self._config.host} has no space for the supervisor")
        _log.info("attempt ended: %s %s", ending.reason, ending.error or "")
        self._paths.tidy(self._config.script_user)
        clean = clean and gpus_are_free(self._gpus)
        lost_uuids = lost_gpus(self._gpus)
        self._renewal.retry_while_away(lambda: self._store_end(ending, clean=clean, lost_uuids=lost_uuids))

    def kill_when_lease_is_over(self) -> None:
        """When the lease is over, kill everything, and this process too: its main thread may wait for the database."""
        while not self._renewal.is_over:
            time.sleep(_PERIOD_S)
        self.kill()
        time.sleep(_LEAVE_GRACE_S)
        os._exit(1)

    def kill(self) -> bool:
        """Kill every process of the attempt on all hosts. Returns whether none is left on this one."""
        no_grace = Graces(stop_file_s=None, hurried_s=0.0, sigterm_s=0.0, sigkill_s=self._config.sigkill_grace_s)
        self._members.signal(signal.SIGKILL)
        return stop([self._local], no_grace, meanwhile=self._reap)

    def _watch_to_end(self) -> tuple[Ending, bool]:
        """The ending, and whether no process is left on this host."""
        self._renewal.retry_while_away(self._begin)
        be_polite()  # not earlier: on a busy host, the work up to here could then take longer than the lease
        stopped_for = self._watch()
        if stopped_for is not None:
            self._stopped_at = time.time()
        clean = self._stop(stopped_for)
        loss = self._members.why_lost()
        if stopped_for is None and loss is not None:
            stopped_for = Ending(EndReason.HOST_LOST, loss)  # its ranks noticed it before this process did
        self._wait_for_lines()
        if stopped_for is None and self._in_pool:
            stopped_for = self._fault_of_slurm()
        self._renewal.retry_while_away(lambda: self._intake.drain(meanwhile=self._renewal.renew_if_due))
        self._renewal.retry_while_away(self._samples.store_new)
        exits = self._lookout.exits() | self._intake.exits
        launcher_says = last_lines(self._paths.launcher_log)
        if self._spec.is_script:
            exits = explaining_exits(
                exits, launcher_says=launcher_says, stopped_at=self._stopped_at, has_saved=self._intake.has_saved
            )
        return judge(
            exits,
            ranks=self._ranks,
            started=len(self._intake.pids | exits),
            stopped_for=stopped_for,
            launcher_code=self._launcher.returncode,
            launcher_says=launcher_says,
            per_gpu_batch=None if self._spec.is_script else self._intake.plan.per_gpu_batch,
            no_space=no_space_for(self._paths, self._config),
        ), clean

    def _begin(self) -> None:
        """Read the rows of the attempt, and store what an earlier attempt left."""
        with self._sessions() as session:
            attempt = session.get_one(Attempt, self._lease.attempt_id)
            job = get_job(session, self._lease.job_id)
            self._spec: Spec = spec_from(job.spec)
            self._trial = OwnTrial.of(session, job)
            self._time_limit_s = self._spec.time_limit_s
            self._gpus = held_gpus(session, self._lease.attempt_id, host=self._config.host)
        self._ranks = self._spec.ranks_on(attempt.gpus)
        lead_ranks = range(0 if self._in_pool else self._spec.ranks_on(len(attempt.shares[0]["slots"])))
        self._lookout = SpaceLookout(self._sessions, self._lease, self._paths, lead_ranks, self._members)
        self._intake = Intake(self._sessions, self._lease, self._paths, ranks=self._ranks)
        self._samples = NodeSamples(self._sessions, self._lease, self._members)
        started_at = None if self._spec.is_script else self._started_at
        self._rank_watch = RankWatch(self._intake, lead_ranks, ranks=self._ranks, started_at=started_at)
        store_leftovers(self._sessions, self._lease, self._config.runs_dir, meanwhile=self._renewal.renew_if_due)

    def _watch(self) -> Ending | None:
        """Wait until the launcher has exited, or there is a reason to stop it."""
        while self._launcher.poll() is None:
            self._renew_and_store()
            reason = self._reason_to_stop()
            if reason is not None:
                return reason
            if self._rank_watch.one_is_gone_for(_LEAVE_GRACE_S):
                return None  # without it the other ranks or the launcher hang
            self._local.reap()
            time.sleep(_PERIOD_S)
        return None

    def _renew_and_store(self) -> None:
        """Store what is new, and renew the lease when it is time. If the database is away, do it later."""
        try:
            self._renewal.renew_if_due()
            period_s = _STORE_PERIOD_S if self._trial is None else _STORE_TRIAL_PERIOD_S
            if time.monotonic() - self._stored_at >= period_s:
                self._stored_at = time.monotonic()
                self._store_new()
        except DBAPIError as error:
            if not is_away(error):
                raise
            _log.warning("the database is away: %s", error.orig)

    def _store_new(self) -> None:
        if self._lookout.look():
            self._rank_watch.note_step()
        steps_before = self._intake.steps_seen
        try:
            self._intake.store_new()
        finally:
            if self._intake.steps_seen != steps_before:  # read, if not stored
                self._rank_watch.note_step()
        self._lookout.store_event()
        self._samples.store_new()
        self._judge_trial()

    def _judge_trial(self) -> None:
        """End the trial of a search at once if others are better. What fails here, the searcher does later."""
        if self._trial is None:
            return
        try:
            if self._trial.judge(self._sessions, self._intake.last_epoch):
                self._requests_read_at = 0.0
        except Exception as error:
            _log.warning("the trial was not judged, its search will do so: %s", cause_in_words(error))

    def _reason_to_stop(self) -> Ending | None:
        if (ending := self._fault_of_host()) is not None:
            return ending
        if (loss := self._members.why_lost()) is not None:
            return Ending(EndReason.HOST_LOST, loss)
        if self._is_over_limit():
            self._requests_read_at = 0.0  # so that a limit that was lengthened a moment ago counts
        if (ending := self._requested_ending()) is not None:
            return ending
        if self._is_over_limit():
            return Ending(EndReason.TIME_LIMIT, f"still running after its time limit of {self._time_limit_s:g} s")
        if (stall := self._rank_watch.stall(self._spec.stall_timeout_s)) is not None:
            return Ending(EndReason.STALLED, stall)
        return None

    def _is_over_limit(self) -> bool:
        limit = self._time_limit_s
        return limit is not None and time.monotonic() - self._started_at > limit and not self._lookout.waits

    def _fault_of_host(self) -> Ending | None:
        host = self._config.host
        if not self._paths.root.is_dir():
            return Ending(EndReason.INTERNAL_ERROR, f"the folder of the job on host {host} was removed while it ran")
        if self._leave_signals:
            return Ending(EndReason.HOST_LOST, f"host {host} is shutting down")
        return _NODES_TAKEN if self._in_pool and self._is_leaving() else None

    def _is_leaving(self) -> bool:
        return self._leaving_file.exists() or self._members.is_leaving()

    def _fault_of_slurm(self) -> Ending | None:
        """Why ranks ended on which Slurm had its hand, if it said so only now."""
        if self._is_leaving():
            return _NODES_TAKEN
        trouble = slurm_trouble(last_lines(self._paths.launcher_log, count=200))
        return None if trouble is None else Ending(EndReason.HOST_LOST, f"Slurm failed: {trouble}")

    def _requested_ending(self) -> Ending | None:
        """The ending that was requested, such as a cancel or a pause. Read once a period, with the time limit."""
        if time.monotonic() - self._requests_read_at < self._config.orders_period_s:
            return None
        self._requests_read_at = time.monotonic()
        try:
            with self._sessions() as session:
                requests = leases.stop_requests(session, self._lease)
        except DBAPIError as error:
            if not is_away(error):
                raise
            return None  # `_renew_and_store` logs it
        self._time_limit_s = requests.time_limit_s
        return requested_ending(requests)

    def _stop(self, reason: Ending | None) -> bool:
        """End the remaining processes, step by step. Returns whether none is left on this host."""
        config = self._config
        # Ranks that wait for a lost host, or are stalled, have nothing to save.
        wishes = reason is not None and (reason.saves or reason.reason in _SAVES_FIRST)
        saves = wishes and self._members.why_lost() is None
        has_stop_file = reason is not None and self._paths.root.is_dir()
        stop_file_s = config.save_grace_s if saves else config.stop_file_grace_s
        graces = Graces(
            stop_file_s=stop_file_s if has_stop_file else None,
            hurried_s=config.stop_file_grace_s,
            sigterm_s=config.sigterm_grace_s,
            sigkill_s=config.sigkill_grace_s,
            finish=reason is not None and reason.reason is EndReason.PRUNED,
        )
        return stop([self._local, self._members], graces, meanwhile=self._look_while_stopping) or self._local.are_gone()

    def _look_while_stopping(self) -> bool:
        """Renew and store. Returns whether to hurry: after a cancel or with a lost host, no saving is needed."""
        self._reap()
        self._renew_and_store()
        ending = self._requested_ending()
        is_cancelled = ending is not None and ending.reason is EndReason.CANCELLED and not ending.saves
        return is_cancelled or self._members.why_lost() is not None

    def _reap(self) -> bool:
        self._launcher.poll()  # so that it does not count as a process that is left
        return False

    def _wait_for_lines(self) -> None:
        """Wait until the other hosts have sent all samples and all that their ranks wrote, up to a time limit."""
        give_up_at = time.monotonic() + self._config.sigkill_grace_s
        while len(self._members.clean_hosts()) < len(self._members.hosts) and time.monotonic() < give_up_at:
            if self._members.why_lost() is not None:
                return
            self._renew_and_store()
            time.sleep(_PERIOD_S)

    def _store_end(self, ending: Ending, *, clean: bool, lost_uuids: Sequence[str]) -> None:
        folders = {"checkpoint_bytes": self._paths.checkpoints, "artifact_bytes": self._paths.artifacts}
        stored = {column: bytes_below(folder) for column, folder in folders.items()}
        with self._sessions.begin() as session:
            leases.end(
                session,
                self._lease,
                ending.reason,
                error=ending.without_folders(self._config.datasets, self._config.home).error,
                backoff_s=self._config.restart_backoff_s,
                backoff_limit_s=self._config.restart_backoff_limit_s,
            )
            touch(session, self._lease.job_id, **stored)
            if self._in_pool and (node := self._members.faulty_host(ending.error or "")) is not None:
                blame(session, self._lease, node)
            clean_hosts = self._members.clean_hosts()
            if self._in_pool and (not clean or len(clean_hosts) < len(self._members.hosts)):
                return  # the agent releases them when Slurm has nothing left of the nodes
            release_slots(session, self._lease.attempt_id, host=self._config.host, clean=clean, lost_uuids=lost_uuids)
            for host in clean_hosts:
                leases.release(session, self._lease.attempt_id, host=host)
