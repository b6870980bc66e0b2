"""A real supervisor with one rank that trains nothing (`rank.py`), so that a run takes a second.

It is forked from a template, as on a worker: importing what it needs takes longer than most of these tests.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, MetricBlock, MetricPoint
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.runtime.processes import MARK, ProcessId, mark_of
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from tests.integration.worker.conftest import pid_in
from tests.waiting import slowdown, until
from worker.attempt import lease_file
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_with_mark, sweep
from worker.attempt.supervisor_task import SupervisorTask
from worker.nursery.keeper import Nursery

_RANK = Path(__file__).with_name("rank.py")
QUICK = {
    "HORA_LEASE_RENEWAL_S": "0.2", "HORA_ORDERS_PERIOD_S": "0.1", "HORA_STOP_FILE_GRACE_S": "0.5",
    "HORA_SIGTERM_GRACE_S": "0.3", "HORA_RESTART_BACKOFF_S": "100",
}  # fmt: skip

_STARTED_S = 60  # a lease that is long enough to start on a busy machine; those of the tests count from then on


def short_limit_s(seconds: float) -> float:
    """A limit of so many seconds on a quiet machine, and of a minute at most on any."""
    return round(min(seconds * slowdown(), 60.0), 1)


def stored_rows(sessions: Sessions) -> int:
    """Rows of points, those in blocks too."""
    return job_rows.count(sessions, MetricPoint) + job_rows.count(sessions, MetricBlock)


class Supervised:
    """An attempt of one rank, and the process that supervises it."""

    def __init__(self, sessions: Sessions, lease: Lease, paths: AttemptPaths, process: ProcessId):
        self.sessions, self.lease, self.paths, self.process = sessions, lease, paths, process
        self.mark = mark_of(lease.job_id, lease.number)

    @property
    def attempt(self) -> Attempt:
        return job_rows.the_attempt(self.sessions, self.lease)

    @property
    def job(self) -> Job:
        return job_rows.the_job(self.sessions, self.lease.job_id)

    def ask(self, request: Callable[[Session, str], object]) -> None:
        """Ask for something that ends the attempt, such as a pause of its job."""
        write(self.sessions, request, self.lease.job_id)

    def wait_for_steps(self) -> None:
        """Wait until steps are stored."""
        until(lambda: stored_rows(self.sessions), what="a step")

    def hidden_pid(self) -> int:
        """The pid of the child of a deaf rank that has neither its mark nor its session, once it is written."""
        return pid_in(self.paths.root / "hidden")

    def wait_for_exit(self, *, within_s: float = 240) -> None:
        """Wait until the supervisor is gone, whatever it has stored."""
        until(lambda: not self.process.is_alive, within_s=within_s, what="the end of the supervisor")

    def wait_for_end(self) -> EndReason | None:
        """Wait for the supervisor's own end; no process may be left. Returns why the attempt ended."""
        self.wait_for_exit()
        assert pids_with_mark(self.mark) == []
        assert job_rows.holders(self.sessions) == [None]
        return self.attempt.end_reason


Run = Callable[..., Supervised]


@pytest.fixture(scope="session")
def nursery(session_folder: Path) -> Iterator[Nursery]:
    """A nursery whose template is ready. Its supervisors get all that they need to know from their orders."""
    nursery = Nursery(Settings(home=session_folder / "nursery"), threads=1)
    nursery.start()
    until(lambda: nursery.memory_bytes, what="the template of supervisors")
    yield nursery
    nursery.close()
    nursery.join(120)


@pytest.fixture
def run(nursery: Nursery, sessions: Sessions, database: str, broker: str, tmp_path: Path) -> Iterator[Run]:
    """Place a job of one slot, or one `again`, and start its supervisor."""
    started: list[Supervised] = []

    def run(
        mood: str = "obedient", *, again: str | None = None, save_s: float = 0.0, lease_s: float = 60,
        starts_s: float = _STARTED_S, **fields: Any,
    ) -> Supervised:  # fmt: skip
        job_rows.a_host(sessions, slots=1)
        lease = job_rows.an_attempt(sessions, again or job_rows.a_job(sessions, gpus=1, **fields), slots=[0])
        write(sessions, leases.claim, lease.attempt_id, lease_s=_STARTED_S)
        paths = paths_of(tmp_path / "runs", lease.job_id, lease.number)
        paths.create([0])
        lease_file.extend(paths.lease_file, time.monotonic() + starts_s)
        task = SupervisorTask(
            attempt_id=lease.attempt_id, token=lease.token, job_id=lease.job_id, number=lease.number,
            argv=[sys.executable, "-S", str(_RANK), str(paths.root), mood, str(save_s)],
            environment={"PATH": os.environ["PATH"], MARK: mark_of(lease.job_id, lease.number)},
            launcher_log=str(paths.launcher_log), lease_file=str(paths.lease_file),
        )  # fmt: skip
        variables = {"HOME": str(tmp_path), "DATABASE_URL": database, "BROKER_URL": broker, "HOST_NAME": "ha"}
        variables |= {"LEASE_S": str(lease_s)}
        environment = {**os.environ, **QUICK, **{f"HORA_{name}": value for name, value in variables.items()}}
        argv = [sys.executable, "-m", "worker.supervisor", str(lease.attempt_id)]
        with paths.supervisor_log.open("ab") as log:
            pid = nursery.fork_supervisor(argv, environment, asdict(task), log=log.fileno())
        assert pid is not None
        process = ProcessId.of(pid) or ProcessId(pid, 0)
        started.append(Supervised(sessions, lease, paths, process))
        return started[-1]

    yield run
    for supervised in started:
        supervised.process.signal(signal.SIGKILL)
        supervised.wait_for_exit()
        assert sweep(supervised.mark)
