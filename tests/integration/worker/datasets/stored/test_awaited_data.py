"""Supervisors that wait until all hosts of their attempts have the data."""

import time
from datetime import timedelta

from sqlalchemy import func, select, update

from jobs.data import host_datasets
from jobs.db.tables import Host, Job, JobEvent, Upload
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, get_job
from jobs.model.states import EndReason, EventKind
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change
from tests.integration.worker.datasets.stored.stored_site import Site
from worker.attempt.supervisor_task import SupervisorTask, task_of
from worker.copies.start import Start
from worker.datasets.fetcher import DatasetFetcher


def task_on(site: Site, settings: Settings, lease: Lease) -> SupervisorTask:
    with site.sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=60) is not None
    return task_of(site.sessions, settings, lease, claimed_at=time.monotonic())


def test_a_supervisor_waits_for_the_data_of_all_hosts(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    lease = site.attempt("ha", "hb")
    task = task_on(site, site.ha, lease)
    assert (task.waits_for_data, task.argv) == (True, [])
    fetcher.start()
    start = Start(task, site.sessions, site.ha, [])
    assert start.run()
    assert "-np" in start.task.argv
    assert not start.task.waits_for_data
    with site.sessions() as session:
        said = session.scalar(select(JobEvent.data).where(JobEvent.kind == EventKind.WAITS_FOR_FILES))
    assert said == {"dataset": "chips@1", "hosts": ["hb"]}
    with site.sessions.begin() as session:
        leases.end(session, lease, EndReason.HOST_LOST)
        leases.release(session, lease.attempt_id)
        session.execute(update(Job).values(not_before=None))
    with site.sessions.begin() as session:
        shares = (Share("ha", (0,)), Share("hb", (0,)))
        again = placing.place(session, [Placement(lease.job_id, shares)], lease_s=60)[0]
    assert not task_on(site, site.ha, again).waits_for_data


def test_a_host_that_cannot_have_the_data_ends_the_attempt(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.store.remove([site.store.files("uploads")[0].key])
    lease = site.attempt("ha", "hb")
    task = task_on(site, site.ha, lease)
    fetcher.start()
    assert not Start(task, site.sessions, site.ha, []).run()
    attempt = job_rows.the_attempt(site.sessions, lease)
    assert attempt.end_reason == EndReason.BAD_DATA
    assert attempt.error == "host hb cannot have chips@1: the store has lost the bytes at 0"
    assert job_rows.the_job(site.sessions, lease.job_id).status == "failed"


def test_a_host_that_is_lost_is_not_waited_for(site: Site) -> None:
    site.validated()
    lease = site.attempt("ha", "hb")
    task = task_on(site, site.ha, lease)
    change(site.sessions, update(Host).where(Host.name == "hb").values(heartbeat_at=func.now() - timedelta(hours=1)))
    assert not Start(task, site.sessions, site.ha, []).run()
    attempt = job_rows.the_attempt(site.sessions, lease)
    assert (attempt.end_reason, attempt.error) == (EndReason.HOST_LOST, "host hb stopped sending heartbeats")
    assert job_rows.the_job(site.sessions, lease.job_id).status == "queued"


def test_versions_on_disk_need_no_rows(site: Site) -> None:
    """Those that were uploaded before there was a store lie in a folder that the hosts share."""
    site.validated()
    change(site.sessions, update(Upload).values(in_store=False))
    lease = site.attempt("hb")
    with site.sessions() as session:
        assert host_datasets.wanted(session, "hb") == []
        ref = get_job(session, lease.job_id).dataset_ref
        assert ref is not None
        assert host_datasets.arrivals(session, ref, lease.attempt_id, host_timeout_s=60) == []
