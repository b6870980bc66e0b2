"""A pool of a real Slurm with the desk of its worker and a dispatcher, and no ranks. For tests of both."""

import os
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Allocation, Attempt, Job, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, locked_job
from jobs.model.job_changes import changes_from
from jobs.model.states import EndReason, Status
from jobs.people import job_changes
from jobs.people.project_admission import Applicant
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling import allocations, registration
from jobs.scheduling.queue import standings
from tests.waiting import until
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher
from worker.slurm import commands
from worker.slurm.desk import Desk

TWO_NODES = {"device": "cpu", "placement": "spread"}  # with 2 ranks


class NotingLauncher(Launcher):
    """Notes what it is to launch: these tests need no ranks."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__(sessions, settings)
        self.launched: list[int] = []

    def launch(self, attempt_id: int) -> bool:
        self.launched.append(attempt_id)
        return True


class Site:
    """A pool, the desk of its worker, and the dispatcher that hands jobs to it."""

    def __init__(self, sessions: Sessions, settings: Settings, hints: Hints) -> None:
        self.sessions = sessions
        self.settings = settings
        self.dispatcher = Dispatcher(sessions, hints, settings)
        self.launcher = NotingLauncher(sessions, settings)
        self.desk = Desk(sessions, settings, launcher=self.launcher)
        self.desk.once()
        self.register()

    def restart(self) -> None:
        """Begin as a new worker does, after the end of the one before."""
        self.desk.close()
        self.desk = Desk(self.sessions, self.settings, launcher=self.launcher)
        self.desk.once()

    def register(self) -> None:
        assert self.desk.partition is not None
        info = {"nodes": [node.to_json() for node in self.desk.partition.nodes], "problem": self.desk.problem}
        with self.sessions.begin() as session:
            registration.register_pool(session, self.settings.host, info)

    def turn(self) -> None:
        """What happens in about a second."""
        self.register()
        self.dispatcher.run()
        self.desk.once()

    def allocation(self, job_id: str) -> Allocation:
        with self.sessions() as session:
            return session.scalars(select(Allocation).where(Allocation.job_id == job_id)).one()

    def until(self, job_id: str, state: str) -> Allocation:
        """Turn until Slurm says so of the job."""

        def is_so() -> bool:
            self.turn()
            with self.sessions() as session:
                return session.scalar(select(Allocation.state).where(Allocation.job_id == job_id)) == state

        until(is_so, what=f"{state} of {job_id}")
        return self.allocation(job_id)

    def status(self, job_id: str) -> Status:
        with self.sessions() as session:
            return session.get_one(Job, job_id).status

    def reason(self, job_id: str) -> str:
        with self.sessions() as session:
            return standings(session, [job_id], host_timeout_s=30.0)[job_id].reason

    def slots(self) -> list[Slot]:
        with self.sessions() as session:
            return list(session.scalars(select(Slot).order_by(Slot.rank)))

    def until_given_back(self, job_id: str) -> None:
        """Turn until Slurm has nothing left of the job's first attempt."""

        def is_over() -> bool:
            self.turn()
            with self.sessions() as session:
                of_job = (Allocation.job_id == job_id) & (Allocation.number == 1)
                return session.scalar(select(Allocation.over_at).where(of_job)) is not None

        until(is_over, what=f"the end of the allocation of {job_id}")

    def attempt(self, job_id: str) -> tuple[Attempt, Lease]:
        """The newest one."""
        with self.sessions() as session:
            of_job = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number.desc())
            attempt = session.scalars(of_job).first()
        assert attempt is not None
        return attempt, Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)

    def fail(self, job_id: str, node: str) -> None:
        """Let the job's attempt begin, and end because of that node."""
        until(lambda: self.turn() or self.status(job_id) is Status.LAUNCHING, what="an attempt")
        attempt, lease = self.attempt(job_id)
        with self.sessions.begin() as session:
            leases.claim(session, attempt.id, lease_s=60)
            allocations.blame(session, lease, node)
            leases.end(session, lease, EndReason.LAUNCH_FAILED)
            leases.release(session, attempt.id)

    def change(self, job_id: str, **fields: object) -> None:
        with self.sessions.begin() as session:
            by = Applicant("me", is_admin=True)
            assert job_changes.change(session, locked_job(session, job_id), changes_from(fields), by=by)


def occupy(*options: str) -> int:
    """Let somebody else use both nodes."""
    number = commands.submit(
        "#!/bin/sh\nsleep 600\n", ["--job-name=others", "--nodes=2", "--exclusive", "--time=10", *options]
    )
    until(lambda: any(job.name == "others" and job.state == "RUNNING" for job in commands.jobs()), what="others")
    return number


def fake_command(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, script: str) -> None:
    """Put a script in front of a command of Slurm."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
