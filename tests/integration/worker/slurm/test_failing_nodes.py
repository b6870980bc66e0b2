"""Which nodes the jobs of a pool avoid after failures there, in a real Slurm."""

from sqlalchemy import select, update

from jobs.db.tables import Allocation, Attempt
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason, Status
from jobs.scheduling import allocations
from tests.integration.jobs import job_rows
from tests.integration.worker.slurm.pool_site import TWO_NODES, Site, occupy
from tests.slurm import Slurm
from tests.waiting import until
from worker.slurm import commands


def excluded(cluster: Slurm) -> set[str]:
    """The nodes that the jobs which wait in Slurm avoid, as lists."""
    lines = cluster.run("squeue", "--noheader", "--states=PENDING", "--format=%x").splitlines()
    return {line.strip().replace("(null)", "") for line in lines}


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
    number = occupy()
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
    commands.cancel(number)
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
