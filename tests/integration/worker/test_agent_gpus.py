"""The agent of a host with GPUs: what it registers, and what happens to a GPU that is lost during an attempt."""

from collections.abc import Callable

import pytest

from jobs.db.engine import Sessions
from jobs.model.states import EndReason, Status
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import MakeAgent
from worker.attempt.shares import layout_of
from worker.host.gpus import find_gpus


def test_an_attempt_does_not_start_on_a_gpu_that_others_use_and_a_lost_one_is_unhealthy_afterwards(
    sessions: Sessions, make_agent: MakeAgent, cards: Callable[..., None]
) -> None:
    cards("www")
    agent = make_agent(gpus=find_gpus(), slots=None)
    agent.reconcile()
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    cards("wpw")
    agent.reconcile()
    ended = job_rows.the_attempt(sessions, lease)
    assert (ended.end_reason, ended.error) == (
        EndReason.LAUNCH_FAILED,
        "the supervisor did not start: a process that is not of this job computes on GPU GPU-01 of host ha",
    )
    assert job_rows.the_job(sessions, lease.job_id).status is Status.QUEUED
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions), slots=[0, 2])
    job_rows.end_attempt(sessions, lease, EndReason.CANCELLED, releases=False)
    cards("wpl")
    agent.reconcile()
    slots = job_rows.the_slots(sessions)
    assert [(slot.attempt_id, slot.in_use_by_others, slot.unhealthy) for slot in slots] == [
        (None, False, None), (None, True, None), (None, False, "it is off the bus"),
    ]  # fmt: skip
    assert {(slot.retired_at, slot.quarantined_at) for slot in slots} == {(None, None)}


def test_a_gpu_that_others_use_is_not_free_from_the_start(
    sessions: Sessions, make_agent: MakeAgent, cards: Callable[..., None]
) -> None:
    cards("wp")
    job_rows.a_job(sessions, gpus=2)
    make_agent(gpus=find_gpus(), slots=None).reconcile()
    assert [slot.in_use_by_others for slot in job_rows.the_slots(sessions)] == [False, True]
    assert job_rows.holders(sessions) == [None, None]
    cards("ww")  # a worker that starts again looks again
    make_agent(gpus=find_gpus(), slots=None).reconcile()
    slots = job_rows.the_slots(sessions)
    assert [(slot.in_use_by_others, slot.attempt_id is None) for slot in slots] == [(False, False)] * 2
    with sessions.begin() as session:  # now by a job
        same_slots = [SlotInfo(slot.index, "gpu", slot.name, slot.uuid, in_use=True) for slot in slots]
        registration.register(session, "ha", {}, same_slots)
    assert [slot.in_use_by_others for slot in job_rows.the_slots(sessions)] == [False, False]


def test_a_gpu_with_a_remaining_process_is_not_released(
    sessions: Sessions, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_rows.a_host(sessions, kind="gpu")
    agent = make_agent()
    agent._in_contact_since = 0.0  # registered, with GPUs that this machine does not have
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    job_rows.end_attempt(sessions, lease, EndReason.CANCELLED, releases=False)
    busy = {"ha-1"}
    monkeypatch.setattr("worker.host.gpus.is_in_use", lambda uuid: uuid in busy)
    agent.reconcile()
    assert job_rows.holders(sessions) == [lease.attempt_id] * 2
    assert all(slot.quarantined_at for slot in job_rows.the_slots(sessions))
    busy.clear()
    agent.reconcile()
    assert job_rows.holders(sessions) == [None, None]


def test_ranks_on_cpu_slots_share_the_cores_of_their_hosts_whatever_gpus_these_have(sessions: Sessions) -> None:
    slots = [SlotInfo(0, "gpu", "H200", "GPU-00"), SlotInfo(1, "cpu", "CPU share"), SlotInfo(2, "cpu", "CPU share")]
    info = {"cores": 16, "interface": "eth0", "peers": "same"}
    with sessions.begin() as session:
        for name in ("ha", "hb"):
            registration.register(session, name, info, slots, address=name)
    job_id = job_rows.a_job(sessions, gpus=2, device="cpu")
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, (Share("ha", (1,)), Share("hb", (1,))))], lease_s=60)
        layout = layout_of(session, lease.attempt_id, cpu_slots=2)
    assert [share.threads_per_rank for share in layout.shares] == [8, 8]
