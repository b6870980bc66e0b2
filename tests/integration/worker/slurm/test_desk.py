"""How a pool asks a real Slurm for nodes, watches that, begins attempts, and gives the nodes back."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Allocation, Attempt, Job, Project, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, pause, request_cancel
from jobs.model.states import EndReason, Status
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import allocations, draining, registration
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.slurm import Slurm
from tests.waiting import until
from worker.attempt.allocation_files import files_of
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher
from worker.slurm import commands
from worker.slurm.desk import Desk
from worker.slurm.pool_host import PoolHost

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
        with self.sessions() as session:
            attempt = session.scalars(select(Attempt).where(Attempt.job_id == job_id)).one()
            return attempt, Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)


@pytest.fixture
def site(cluster: Slurm, sessions: Sessions, of_pool: Settings, hints: Hints) -> Iterator[Site]:
    site = Site(sessions, of_pool, hints)
    yield site
    site.desk.close()


def all_of(cluster: Slurm, name: str) -> list[str]:
    """The states of all of Slurm's jobs of a name."""
    lines = cluster.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%T").split()
    return sorted(lines)


def excluded(cluster: Slurm) -> set[str]:
    """The nodes that the jobs which wait in Slurm avoid, as lists."""
    lines = cluster.run("squeue", "--noheader", "--states=PENDING", "--format=%x").splitlines()
    return {line.strip().replace("(null)", "") for line in lines}


def occupy(*options: str) -> int:
    """Let somebody else use both nodes."""
    number = commands.submit(
        "#!/bin/sh\nsleep 600\n", ["--job-name=others", "--nodes=2", "--exclusive", "--time=10", *options]
    )
    until(lambda: any(job.name == "others" and job.state == "RUNNING" for job in commands.jobs()), what="others")
    return number


def test_an_attempt_begins_on_the_nodes_that_slurm_gives_and_gives_them_back(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "RUNNING")
    site.turn()
    attempt, lease = site.attempt(job_id)
    assert site.status(job_id) is Status.LAUNCHING
    assert attempt.host == "slurm:main"
    assert [(share["host"], share["slots"]) for share in attempt.shares] == [("n1", [0]), ("n2", [1])]
    assert [(slot.host, slot.rank, slot.attempt_id) for slot in site.slots()] == [
        ("slurm:main", 0, attempt.id), ("slurm:main", 1, attempt.id),
    ]  # fmt: skip
    assert set(site.launcher.launched) == {attempt.id}
    shown = cluster.run("scontrol", "show", "job", str(site.allocation(job_id).slurm_job))
    assert f"JobName=hora-{job_id}-1" in shown
    assert "NumNodes=2" in shown
    assert "Requeue=0" in shown

    with site.sessions.begin() as session:
        leases.claim(session, attempt.id, lease_s=60)
        leases.end(session, lease, EndReason.BAD_DATA)
        leases.release(session, attempt.id)
    assert site.slots() == []
    site.until_given_back(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["COMPLETED"]
    assert list((site.settings.home / "slurm" / "main").glob("hora-*")) == []


def test_a_job_that_waits_in_slurm_says_why_and_leaves_it_when_it_is_cancelled(cluster: Slurm, site: Site) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    until(lambda: site.turn() or "its nodes are in use" in site.reason(job_id), what="Slurm's reason")
    number = site.allocation(job_id).slurm_job
    assert site.reason(job_id).startswith(f"waits in slurm:main as Slurm's job {number}: its nodes are in use (Resour")
    assert site.status(job_id) is Status.QUEUED
    with site.sessions.begin() as session:
        request_cancel(session, job_id)
    site.until_given_back(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["CANCELLED"]


def test_a_paused_job_and_a_drained_pool_leave_slurm_and_come_back(cluster: Slurm, site: Site) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    with site.sessions.begin() as session:
        pause(session, job_id)
    site.until_given_back(job_id)
    with site.sessions.begin() as session:
        session.execute(update(Job).values(paused_at=None))
    site.until(job_id, "PENDING")
    with site.sessions.begin() as session:
        draining.drain(session, "slurm:main")
    site.until_given_back(job_id)
    site.turn()
    assert "drained" in site.reason(job_id) or "no host is alive" in site.reason(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["CANCELLED", "CANCELLED"]


def test_an_attempt_that_began_on_a_host_leaves_slurm(cluster: Slurm, site: Site) -> None:
    """As it can be while the worker of the pool is lost."""
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    job_rows.a_host(site.sessions)
    job_rows.an_attempt(site.sessions, job_id)
    site.until_given_back(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["CANCELLED"]
    assert site.status(job_id) is Status.LAUNCHING


def test_a_lost_answer_submits_nothing_twice(cluster: Slurm, site: Site) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    with site.sessions.begin() as session:  # as if the worker had died before it could store the answer
        session.execute(update(Allocation).values(slurm_job=None, state=None))
    site.restart()
    site.until(job_id, "PENDING")
    site.turn()
    assert all_of(cluster, f"hora-{job_id}-1") == ["PENDING"]


def test_a_second_worker_of_the_pool_does_nothing_while_the_first_lives(cluster: Slurm, site: Site) -> None:
    second = Desk(site.sessions, site.settings, launcher=site.launcher)
    name = f"hora-{job_rows.a_job(site.sessions, **TWO_NODES)}-1"
    site.dispatcher.run()
    second.once()
    assert (second.has_lock, second.problem) == (False, "another worker offers this pool")
    assert second.partition is None
    assert name not in cluster.jobs()
    site.desk.close()
    second.once()
    assert second.has_lock
    assert name in cluster.jobs()
    second.close()


def test_what_slurm_does_not_answer_changes_nothing(cluster: Slurm, site: Site) -> None:
    running, waiting = (job_rows.a_job(site.sessions, **TWO_NODES, gpus=4) for _ in range(2))  # all cores each
    site.until(running, "RUNNING")
    site.until(waiting, "PENDING")
    cluster.stop_controller()
    for _ in range(3):
        site.turn()
    assert site.desk.problem is not None
    assert site.allocation(running).state == "RUNNING"
    assert site.allocation(waiting).state == "PENDING"
    later = job_rows.a_job(site.sessions, **TWO_NODES, pool="slurm:main", gpus=4)
    site.turn()
    assert site.reason(later).startswith("slurm:main takes no jobs now: ")
    cluster.start_controller()
    site.until(later, "PENDING")
    assert all_of(cluster, f"hora-{running}-1") == ["RUNNING"]
    assert all_of(cluster, f"hora-{waiting}-1") == ["PENDING"]


def test_an_empty_answer_ends_nothing(
    cluster: Slurm, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "RUNNING")
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "squeue").write_text("#!/bin/sh\nexit 0\n")
    (empty / "squeue").chmod(0o755)
    path = shutil.which("squeue")
    assert path is not None
    monkeypatch.setenv("PATH", f"{empty}:{Path(path).parent}:/bin")
    for _ in range(5):
        site.turn()
    assert site.allocation(job_id).state == "RUNNING"
    assert site.allocation(job_id).over_at is None


def test_an_allocation_that_somebody_cancels_before_it_began_is_asked_for_again(cluster: Slurm, site: Site) -> None:
    others = occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    first = site.until(job_id, "PENDING").slurm_job
    assert first is not None
    commands.cancel(first)

    def is_asked_again() -> bool:
        site.turn()
        return site.allocation(job_id).slurm_job not in (first, None)

    until(is_asked_again, what="another job of Slurm")
    commands.cancel(others)
    site.until(job_id, "RUNNING")


def test_a_script_that_was_told_to_end_begins_no_attempt(cluster: Slurm, site: Site) -> None:
    """As after a pause and a resume, while Slurm started its job."""
    others = occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    first = site.until(job_id, "PENDING").slurm_job
    files_of(site.settings).finish(f"hora-{job_id}-1")
    commands.cancel(others)

    def has_begun() -> bool:
        site.turn()
        return site.status(job_id) is Status.LAUNCHING

    until(has_begun, what="the attempt")
    assert site.allocation(job_id).slurm_job != first
    assert len(site.launcher.launched) == 1


def test_a_worker_that_takes_a_pool_over_ends_no_attempt_of_another_machine(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, **TWO_NODES, max_restarts=0)
    site.until(job_id, "RUNNING")
    site.turn()
    attempt, lease = site.attempt(job_id)
    with site.sessions.begin() as session:
        leases.claim(session, attempt.id, lease_s=600)
        leases.record_supervisor(session, lease, ProcessId(2**22 - 1, 1))  # no process here
        session.execute(update(Allocation).values(login="login2"))
    pool = PoolHost(site.sessions, site.settings, launcher=site.launcher, desk=site.desk)

    def reconcile() -> None:
        pool.reconcile(leases_count=lambda session: True, meanwhile=lambda: None)

    reconcile()
    assert site.attempt(job_id)[0].ended_at is None
    with site.sessions.begin() as session:
        session.execute(update(Allocation).values(login=socket.gethostname()))
    reconcile()
    assert site.attempt(job_id)[0].ended_at is not None
    assert site.slots()  # until Slurm has nothing left of the nodes
    site.until_given_back(job_id)
    reconcile()
    assert site.slots() == []


def test_what_slurm_refuses_is_said_on_the_job(cluster: Slurm, site: Site) -> None:
    site.settings = site.settings.model_copy(update={"slurm_args": "--gres=gpu:64"})
    site.restart()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    until(lambda: site.turn() or "Slurm refused it" in site.reason(job_id), what="the refusal")
    assert site.reason(job_id).startswith("slurm:main has not got it: Slurm refused it: ")


def test_a_project_has_no_more_slots_in_slurm_than_its_quota(cluster: Slurm, site: Site) -> None:
    with site.sessions.begin() as session:
        session.execute(update(Project).values(max_slots=4))
    waiting = [job_rows.a_job(site.sessions, **TWO_NODES) for _ in range(4)]
    for _ in range(3):
        site.turn()
    with site.sessions() as session:
        handed = session.scalars(select(Allocation.job_id)).all()
    assert sorted(handed) == sorted(waiting[:2])
    assert "4 of 4 slots in use" in site.reason(waiting[2])


def test_two_hundred_jobs_need_one_question_a_turn(
    cluster: Slurm, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, squeue = tmp_path / "questions", shutil.which("squeue")
    counting = tmp_path / "squeue"
    counting.write_text(f'#!/bin/sh\necho >> {questions}\nexec {squeue} "$@"\n')
    counting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/local/bin:/usr/bin:/bin")
    jobs = [job_rows.a_job(site.sessions, gpus=1, device="cpu") for _ in range(200)]
    for _ in range(3):
        site.turn()
    with site.sessions() as session:
        numbers = session.scalars(select(Allocation.slurm_job).order_by(Allocation.id)).all()
    assert len(numbers) == len(jobs)
    assert None not in numbers
    assert numbers == sorted(numbers)
    assert len(questions.read_text().splitlines()) == 3


def test_a_node_on_which_two_jobs_failed_is_avoided(cluster: Slurm, site: Site) -> None:
    for _ in range(2):
        job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1, max_restarts=0)
        site.until(job_id, "RUNNING")
        attempt, lease = site.attempt(job_id)
        with site.sessions.begin() as session:
            leases.claim(session, attempt.id, lease_s=60)
            allocations.blame(session, lease, "n1")
            leases.end(session, lease, EndReason.LAUNCH_FAILED)
            leases.release(session, attempt.id)
        site.until_given_back(job_id)
    site.restart()
    assert site.desk.exclusion.failing == ("n1",)
    assert site.until(job_rows.a_job(site.sessions, device="cpu", gpus=1), "RUNNING").nodes == ["n2"]
    assert site.until(job_rows.a_job(site.sessions, **TWO_NODES), "RUNNING").nodes == ["n1", "n2"]  # it needs both


def test_a_job_that_waits_in_slurm_avoids_a_node_that_fails_meanwhile(cluster: Slurm, site: Site) -> None:
    others = occupy()
    waiting = job_rows.a_job(site.sessions, device="cpu", gpus=1, priority=90)
    before = site.until(waiting, "PENDING")
    failed = [job_rows.a_job(site.sessions, device="cpu", gpus=1) for _ in range(2)]
    for job_id in failed:
        site.until(job_id, "PENDING")
        with site.sessions.begin() as session:
            allocations.blame(session, Lease(0, "", job_id, 1), "n1")
    site.restart()
    site.turn()
    assert site.desk.exclusion.failing == ("n1",)
    assert excluded(cluster) == {"n1"}
    with site.sessions.begin() as session:
        session.execute(update(Allocation).where(Allocation.job_id == failed[0]).values(lost_nodes=[]))
    site.desk.exclusion.look()
    site.turn()
    assert excluded(cluster) == {""}
    with site.sessions.begin() as session:
        session.execute(update(Allocation).where(Allocation.job_id == failed[0]).values(lost_nodes=["n1"]))
    site.desk.exclusion.look()
    site.turn()
    commands.cancel(others)
    after = site.until(waiting, "RUNNING")
    assert (after.slurm_job, after.nodes) == (before.slurm_job, ["n2"])


def test_a_job_avoids_a_node_on_which_two_of_its_own_attempts_failed(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1, max_restarts=5)
    for number in (1, 2):
        until(lambda: site.turn() or site.status(job_id) is Status.LAUNCHING, what=f"attempt {number}")
        with site.sessions.begin() as session:
            attempt = session.scalars(select(Attempt).where(Attempt.job_id == job_id, Attempt.number == number)).one()
            lease = Lease(attempt.id, str(attempt.token), job_id, number)
            assert attempt.shares[0]["host"] == "n1"
            leases.claim(session, attempt.id, lease_s=60)
            allocations.blame(session, lease, "n1")
            leases.end(session, lease, EndReason.LAUNCH_FAILED)
            leases.release(session, attempt.id)
    until(lambda: site.turn() or site.status(job_id) is Status.LAUNCHING, what="attempt 3")
    with site.sessions() as session:
        third = session.scalars(select(Attempt).where(Attempt.job_id == job_id, Attempt.number == 3)).one()
        assert third.shares[0]["host"] == "n2"
    assert site.desk.exclusion.failing == ()  # one job says nothing about others


def test_an_attempt_that_a_person_ends_in_slurm_blames_no_node(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1, max_restarts=0)
    allocation = site.until(job_id, "RUNNING")
    attempt, lease = site.attempt(job_id)
    assert allocation.slurm_job is not None
    commands.cancel(allocation.slurm_job)
    with site.sessions.begin() as session:
        leases.claim(session, attempt.id, lease_s=60)
        allocations.blame(session, lease, "n1")
        leases.end(session, lease, EndReason.LAUNCH_FAILED)
    site.until_given_back(job_id)
    assert site.allocation(job_id).lost_nodes == []
