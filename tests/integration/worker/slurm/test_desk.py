"""How a pool asks a real Slurm for nodes, watches that, begins attempts, and gives the nodes back.

And what Slurm is told of jobs that wait there: nodes to avoid after failures, priority and time limit.
"""

import shutil
import socket
from pathlib import Path

import pytest
from sqlalchemy import select, update

from jobs.db.tables import Allocation, Job, Project
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, pause
from jobs.model.states import EndReason, Status
from jobs.runtime.processes import ProcessId
from jobs.scheduling import allocations, draining
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.slurm.pool_site import TWO_NODES, Site, fake_command, occupy
from tests.slurm import Slurm
from tests.waiting import until
from worker.attempt.allocation_files import files_of
from worker.slurm import commands
from worker.slurm.commands import SlurmAway, SlurmRefused
from worker.slurm.desk import Desk
from worker.slurm.pool_host import PoolHost


def all_of(cluster: Slurm, name: str) -> list[str]:
    """The states of all of Slurm's jobs of a name."""
    return sorted(cluster.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%T").split())


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


def test_a_job_that_waits_in_slurm_says_why_and_leaves_it_when_asked(cluster: Slurm, site: Site) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    until(lambda: site.turn() or "its nodes are in use" in site.reason(job_id), what="Slurm's reason")
    number = site.allocation(job_id).slurm_job
    assert site.reason(job_id).startswith(f"waits in slurm:main as Slurm's job {number}: its nodes are in use (Resour")
    assert site.status(job_id) is Status.QUEUED
    write(site.sessions, pause, job_id)
    site.until_given_back(job_id)
    change(site.sessions, update(Job).values(paused_at=None))
    site.until(job_id, "PENDING")
    write(site.sessions, draining.drain, "slurm:main")
    site.until_given_back(job_id)
    site.turn()
    assert "drained" in site.reason(job_id) or "no host is alive" in site.reason(job_id)
    write(site.sessions, draining.undrain, "slurm:main")
    site.until(job_id, "PENDING")
    job_rows.cancel(site.sessions, job_id)
    site.until_given_back(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["CANCELLED"] * 3


def test_a_lost_answer_submits_nothing_twice_and_a_start_on_a_host_leaves_slurm(cluster: Slurm, site: Site) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "PENDING")
    with site.sessions.begin() as session:  # as if the worker had died before it could store the answer
        session.execute(update(Allocation).values(slurm_job=None, state=None))
    site.restart()
    site.until(job_id, "PENDING")
    site.turn()
    assert all_of(cluster, f"hora-{job_id}-1") == ["PENDING"]
    job_rows.a_host(site.sessions)
    job_rows.an_attempt(site.sessions, job_id)  # as it can be while the worker of the pool is lost
    site.until_given_back(job_id)
    assert all_of(cluster, f"hora-{job_id}-1") == ["CANCELLED"]
    assert site.status(job_id) is Status.LAUNCHING


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
    with pytest.raises(SlurmAway):
        commands.knows(1)
    assert site.allocation(running).state == "RUNNING"
    assert site.allocation(waiting).state == "PENDING"
    later = job_rows.a_job(site.sessions, **TWO_NODES, pool="slurm:main", gpus=4)
    site.turn()
    assert site.reason(later).startswith("slurm:main takes no jobs now: ")
    cluster.start_controller()
    site.until(later, "PENDING")
    assert all_of(cluster, f"hora-{running}-1") == ["RUNNING"]
    assert all_of(cluster, f"hora-{waiting}-1") == ["PENDING"]


def test_no_answer_ends_nothing(cluster: Slurm, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    site.until(job_id, "RUNNING")
    fake_command(monkeypatch, tmp_path, "squeue", "exit 0")
    for _ in range(5):
        site.turn()
    assert (site.allocation(job_id).state, site.allocation(job_id).over_at) == ("RUNNING", None)


def test_an_allocation_that_ended_before_it_began_is_asked_for_again(cluster: Slurm, site: Site) -> None:
    others = occupy()
    job_id = job_rows.a_job(site.sessions, **TWO_NODES)
    first = site.until(job_id, "PENDING").slurm_job
    assert first is not None
    commands.cancel(first)
    until(lambda: site.turn() or site.allocation(job_id).slurm_job not in (first, None), what="another job of Slurm")
    second = site.until(job_id, "PENDING").slurm_job
    files_of(site.settings).finish(f"hora-{job_id}-1")  # as after a pause and a resume, while Slurm started its job
    commands.cancel(others)
    until(lambda: site.turn() or site.status(job_id) is Status.LAUNCHING, what="the attempt")
    assert site.allocation(job_id).slurm_job not in (first, second)
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
    change(site.sessions, update(Allocation).values(login=socket.gethostname()))
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
    change(site.sessions, update(Project).values(max_slots=4))
    waiting = [job_rows.a_job(site.sessions, **TWO_NODES) for _ in range(4)]
    for _ in range(3):
        site.turn()
    with site.sessions() as session:
        handed = session.scalars(select(Allocation.job_id)).all()
    assert sorted(handed) == sorted(waiting[:2])
    assert "4 of 4 slots in use" in site.reason(waiting[2])


def test_fifty_jobs_need_one_question(
    cluster: Slurm, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, squeue = tmp_path / "questions", shutil.which("squeue")
    fake_command(monkeypatch, tmp_path, "squeue", f'echo >> {questions}\nexec {squeue} "$@"')
    for _ in range(50):
        job_rows.a_job(site.sessions, gpus=1, device="cpu")
    for _ in range(3):
        site.turn()
    with site.sessions() as session:
        numbers = session.scalars(select(Allocation.slurm_job).order_by(Allocation.id)).all()
    assert len(numbers) == 50
    assert sorted(number for number in numbers if number is not None) == numbers
    assert len(questions.read_text().splitlines()) == 3


CPU = {"device": "cpu", "gpus": 1}


def told(cluster: Slurm, *fields: str) -> list[list[str]]:
    """What Slurm knows of the jobs that wait there."""
    lines = cluster.run("squeue", "--noheader", "--states=PENDING", f"--format={'|'.join(fields)}").splitlines()
    return [[part.strip().replace("(null)", "") for part in line.split("|")] for line in lines]


def excluded(cluster: Slurm) -> set[str]:
    """The nodes that they avoid, as lists."""
    return {nodes for (nodes,) in told(cluster, "%x")}


def nice_and_limit(cluster: Slurm) -> list[list[str]]:
    return told(cluster, "%y", "%l")


def test_a_node_on_which_two_jobs_failed_is_avoided(cluster: Slurm, site: Site) -> None:
    for _ in range(2):
        job_id = job_rows.a_job(site.sessions, **CPU, max_restarts=0)
        site.fail(job_id, "n1")
        site.until_given_back(job_id)
    site.restart()
    assert site.desk.exclusion.failing == ("n1",)
    assert site.until(job_rows.a_job(site.sessions, **CPU), "RUNNING").nodes == ["n2"]
    assert site.until(job_rows.a_job(site.sessions, **TWO_NODES), "RUNNING").nodes == ["n1", "n2"]  # it needs both


def test_a_job_that_waits_in_slurm_avoids_a_node_that_fails_meanwhile(cluster: Slurm, site: Site) -> None:
    number = occupy()
    waiting = job_rows.a_job(site.sessions, **CPU, priority=90)
    before = site.until(waiting, "PENDING")
    failed = [job_rows.a_job(site.sessions, **CPU) for _ in range(2)]
    for job_id in failed:
        site.until(job_id, "PENDING")
        write(site.sessions, allocations.blame, Lease(0, "", job_id, 1), "n1")
    site.restart()
    site.turn()
    assert site.desk.exclusion.failing == ("n1",)
    assert excluded(cluster) == {"n1"}
    for lost_nodes, avoided in (([], {""}), (["n1"], {"n1"})):
        change(site.sessions, update(Allocation).where(Allocation.job_id == failed[0]).values(lost_nodes=lost_nodes))
        site.desk.exclusion.look()
        site.turn()
        assert excluded(cluster) == avoided
    commands.cancel(number)
    after = site.until(waiting, "RUNNING")
    assert (after.slurm_job, after.nodes) == (before.slurm_job, ["n2"])


def test_a_job_avoids_a_node_on_which_two_of_its_own_attempts_failed(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, **CPU, max_restarts=5)
    for _ in range(2):
        site.fail(job_id, "n1")
        assert site.attempt(job_id)[0].shares[0]["host"] == "n1"
    until(lambda: site.turn() or site.status(job_id) is Status.LAUNCHING, what="attempt 3")
    assert site.attempt(job_id)[0].shares[0]["host"] == "n2"
    assert site.desk.exclusion.failing == ()  # one job says nothing about others


def test_an_attempt_that_a_person_ends_in_slurm_blames_no_node(cluster: Slurm, site: Site) -> None:
    job_id = job_rows.a_job(site.sessions, **CPU, max_restarts=0)
    allocation = site.until(job_id, "RUNNING")
    assert allocation.slurm_job is not None
    commands.cancel(allocation.slurm_job)
    site.fail(job_id, "n1")
    site.until_given_back(job_id)
    assert site.allocation(job_id).lost_nodes == []


def test_a_waiting_job_gets_its_new_priority_and_limit_and_keeps_its_number(cluster: Slurm, site: Site) -> None:
    number = occupy()
    job_id = job_rows.a_job(site.sessions, **CPU, priority=50, time_limit_s=3600)
    before = site.until(job_id, "PENDING")
    assert nice_and_limit(cluster) == [["500", "1:10:00"]]
    site.change(job_id, priority=80, time_limit_s=7200)
    site.turn()
    assert nice_and_limit(cluster) == [["200", "2:10:00"]]
    site.change(job_id, priority=20, time_limit_s=60)
    site.turn()
    assert nice_and_limit(cluster) == [["800", "11:00"]]
    site.desk.close()  # the worker is away
    site.change(job_id, priority=100, time_limit_s=None)
    site.restart()
    site.turn()
    nice, limit = nice_and_limit(cluster)[0]
    assert nice == "0"
    assert limit not in ("11:00", "2:10:00")
    commands.cancel(number)
    assert site.until(job_id, "RUNNING").slurm_job == before.slurm_job


def test_slurm_is_told_once_of_what_it_refuses(cluster: Slurm, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, **CPU, time_limit_s=60)
    site.until(job_id, "PENDING")
    changes: list[tuple[str, int]] = []
    change_in_slurm = commands.change

    def refusing(slurm_job: int, name: str, value: int) -> None:
        changes.append((name, value))
        if name == "TimeLimit":
            raise SlurmRefused("Access/permission denied")
        change_in_slurm(slurm_job, name, value)

    monkeypatch.setattr(commands, "change", refusing)
    site.turn()
    assert changes == []  # `sbatch` said it
    site.change(job_id, priority=70, time_limit_s=600, name="other")
    for _ in range(3):
        site.turn()
    assert changes == [("Nice", 300), ("TimeLimit", 20)]
    assert nice_and_limit(cluster) == [["300", "11:00"]]


def test_an_option_of_the_operator_wins(cluster: Slurm, site: Site) -> None:
    site.desk.close()
    site.settings = site.settings.model_copy(update={"slurm_args": "--nice=7 --time=33"})
    site.restart()
    occupy()
    job_id = job_rows.a_job(site.sessions, **CPU)
    site.until(job_id, "PENDING")
    site.change(job_id, priority=90, time_limit_s=60)
    site.turn()
    assert nice_and_limit(cluster) == [["7", "33:00"]]
