"""What a real Slurm is told of jobs that wait there: nodes to avoid after failures, priority and time limit."""

import pytest
from sqlalchemy import update

from jobs.db.tables import Allocation
from jobs.lifecycle.store import Lease
from jobs.model.states import Status
from jobs.scheduling import allocations
from tests.integration.jobs import job_rows
from tests.integration.worker.slurm.pool_site import TWO_NODES, Site, occupy
from tests.slurm import Slurm
from tests.waiting import until
from worker.slurm import commands
from worker.slurm.commands import SlurmRefused

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
        with site.sessions.begin() as session:
            allocations.blame(session, Lease(0, "", job_id, 1), "n1")
    site.restart()
    site.turn()
    assert site.desk.exclusion.failing == ("n1",)
    assert excluded(cluster) == {"n1"}
    for lost_nodes, avoided in (([], {""}), (["n1"], {"n1"})):
        with site.sessions.begin() as session:
            session.execute(update(Allocation).where(Allocation.job_id == failed[0]).values(lost_nodes=lost_nodes))
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
