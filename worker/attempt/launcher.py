"""From a placed attempt to a running supervisor. Called by this worker's passes, for hints, and by the agent.

The claim in the database lets only the first one continue.
"""

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO

from jobs.db.engine import Sessions
from jobs.lifecycle.leases import claim, end, record_supervisor, release
from jobs.lifecycle.store import get_job
from jobs.model.problems import InvalidSpec
from jobs.model.states import EndReason
from jobs.runtime.processes import SUPERVISOR_MARK, ProcessId, mark_of
from jobs.runtime.settings import Settings
from jobs.runtime.space import shortage
from jobs.scheduling import registration
from worker.attempt.paths import paths_of
from worker.attempt.script_launch import CannotRunScript
from worker.attempt.supervisor_task import GpusInUse, SupervisorTask, task_of, why_not_started
from worker.nursery.keeper import Nursery

_log = logging.getLogger(__name__)
_AT_ONCE = 4  # supervisors that are started side by side


class Launcher:
    """Starts supervisors and keeps their handles, so that ended ones do not become zombies."""

    def __init__(self, sessions: Sessions, settings: Settings, nursery: Nursery | None = None) -> None:
        self._sessions = sessions
        self._settings = settings
        self._nursery = nursery
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()  # launches and the agent run in different threads
        self._soon = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="launches")

    def launch(self, attempt_id: int) -> bool:
        """Claim the attempt and start its supervisor. Returns False if another did, or if the attempt has ended."""
        claimed_at = time.monotonic()
        with self._sessions.begin() as session:
            lease = claim(session, attempt_id, lease_s=self._settings.lease_s)
            if lease is None:
                return False
            if get_job(session, lease.job_id).cancel_requested_at is not None:
                end(session, lease, EndReason.CANCELLED)
                release(session, attempt_id)
                return False
        try:
            self._require_space()
            pid = self._start_supervisor(task_of(self._sessions, self._settings, lease, claimed_at=claimed_at))
        except (OSError, InvalidSpec, CannotRunScript) as error:
            shutil.rmtree(paths_of(self._settings.runs_dir, lease.job_id, lease.number).root, ignore_errors=True)
            reason, why = why_not_started(error)
            with self._sessions.begin() as session:
                if isinstance(error, GpusInUse):  # so that its job does not get the same ones again
                    registration.mark_in_use(session, self._settings.host, error.uuids)
                end(
                    session, lease, reason, error=why,
                    backoff_s=self._settings.restart_backoff_s, backoff_limit_s=self._settings.restart_backoff_limit_s,
                )  # fmt: skip
                release(session, attempt_id)
            return False
        with self._sessions.begin() as session:
            record_supervisor(session, lease, ProcessId.of(pid) or ProcessId(pid, 0))
        return True

    def launch_soon(self, attempt_id: int) -> None:
        """Launch the attempt in a thread, without waiting for it. Errors are logged: the agent tries again."""
        with suppress(RuntimeError):  # this worker ends: the next one launches it
            self._soon.submit(self._launch_logged, attempt_id)

    def _launch_logged(self, attempt_id: int) -> None:
        try:
            self.launch(attempt_id)
        except Exception:
            _log.exception("attempt %d could not be launched; the agent tries again", attempt_id)

    def close(self) -> None:
        """Finish the launches that have begun. Those that wait are left to the next worker."""
        self._soon.shutdown(cancel_futures=True)

    def reap(self) -> None:
        """Forget the supervisors that have ended."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]

    def _require_space(self) -> None:
        """Raises `OSError` if this host should not have got a job: it was placed before the host reported its space."""
        problem = shortage(self._settings, "runs")
        if problem is not None:
            raise OSError(errno.ENOSPC, f"host {self._settings.host} has no space: {problem}")

    def _start_supervisor(self, task: SupervisorTask) -> int:
        """The pid of a supervisor, warm if possible. In a session of its own, it does not end with the worker."""
        argv = [sys.executable, "-m", "worker.supervisor", str(task.attempt_id)]
        environment = {
            **os.environ,
            SUPERVISOR_MARK: mark_of(task.job_id, task.number),
            "HORA_HOST_NAME": self._settings.host,  # or that of the pool
        }
        log = paths_of(self._settings.runs_dir, task.job_id, task.number).supervisor_log
        with log.open("ab") as output:
            pid = None
            if self._nursery is not None:
                pid = self._nursery.fork_supervisor(argv, environment, task.__dict__, log=output.fileno())
            how = "cold" if pid is None else "warm"
            if pid is None:
                pid = self._started_cold(argv, environment, task, output)
        about = {"job": task.job_id, "attempt": task.number}
        _log.info("supervisor %d started %s for attempt %d", pid, how, task.attempt_id, extra=about)
        return pid

    def _started_cold(
        self, argv: list[str], environment: dict[str, str], task: SupervisorTask, output: BinaryIO
    ) -> int:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        with self._lock:
            self._children.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps(task.__dict__).encode())
        process.stdin.close()
        return process.pid
