"""The agent of a host with GPUs: what it registers, and what happens to a GPU that is lost during an attempt."""

from collections.abc import Callable

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.model.states import EndReason, Status
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of
from worker.attempt.shares import layout_of
from worker.host.gpus import find_gpus


def test_a_gpu_that_was_lost_during_an_attempt_is_unhealthy_afterwards(
    sessions: Sessions, settings: Settings, hints: Hints, cards: Callable[..., None]
) -> None:
    cards("ww")
    agent = agent_of(sessions, settings, hints, gpus=find_gpus(), slots=None)
    agent.reconcile()
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
    cards("wl")
    agent.reconcile()
    slots = job_rows.the_slots(sessions)
    assert [slot.attempt_id for slot in slots] == [None, None]
    assert [slot.unhealthy for slot in slots] == [None, "it is off the bus"]
    assert [slot.retired_at for slot in slots] == [None, None]
    assert [slot.quarantined_at for slot in slots] == [None, None]


def test_a_gpu_that_others_use_is_not_free_from_the_start(
    sessions: Sessions, settings: Settings, hints: Hints, cards: Callable[..., None]
) -> None:
    cards("wp")
    job_rows.a_job(sessions, gpus=2)
    agent_of(sessions, settings, hints, gpus=find_gpus(), slots=None).reconcile()
    assert [slot.in_use_by_others for slot in job_rows.the_slots(sessions)] == [False, True]
    assert job_rows.holders(sessions) == [None, None]
    cards("ww")  # a worker that starts again looks again
    agent_of(sessions, settings, hints, gpus=find_gpus(), slots=None).reconcile()
    slots = job_rows.the_slots(sessions)
    assert [(slot.in_use_by_others, slot.attempt_id is None) for slot in slots] == [(False, False)] * 2
    with sessions.begin() as session:  # now by a job
        same_slots = [SlotInfo(slot.index, "gpu", slot.name, slot.uuid, in_use=True) for slot in slots]
        registration.register(session, "ha", {}, same_slots)
    assert [slot.in_use_by_others for slot in job_rows.the_slots(sessions)] == [False, False]


def test_an_attempt_does_not_start_on_a_gpu_that_another_process_uses_meanwhile(
    sessions: Sessions, settings: Settings, hints: Hints, cards: Callable[..., None]
) -> None:
    cards("ww")
    agent = agent_of(sessions, settings, hints, gpus=find_gpus(), slots=None)
    agent.reconcile()
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    cards("wp")
    agent.reconcile()
    ended = job_rows.the_attempt(sessions, lease)
    assert (ended.end_reason, ended.error) == (
        EndReason.LAUNCH_FAILED,
        "the supervisor did not start: a process that is not of this job computes on GPU GPU-01 of host ha",
    )
    slots = job_rows.the_slots(sessions)
    assert [(slot.attempt_id, slot.in_use_by_others) for slot in slots] == [(None, False), (None, True)]
    assert job_rows.the_job(sessions, lease.job_id).status is Status.QUEUED


def test_ranks_on_cpu_slots_share_the_cores_of_their_hosts_whatever_gpus_these_have(sessions: Sessions) -> None:
    slots = [
        SlotInfo(0, "gpu", "H200", "GPU-00"), SlotInfo(1, "gpu", "H200", "GPU-01"), SlotInfo(2, "cpu", "CPU share"),
        SlotInfo(3, "cpu", "CPU share"),
    ]  # fmt: skip
    info = {"cores": 16, "interface": "eth0", "peers": "same"}
    for name in ("ha", "hb"):
        with sessions.begin() as session:
            registration.register(session, name, info, slots, address=name)
    job_id = job_rows.a_job(sessions, gpus=2, device="cpu")
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, (Share("ha", (2,)), Share("hb", (2,))))], lease_s=60)
    with sessions() as session:
        layout = layout_of(session, lease.attempt_id, cpu_slots=2)
    assert [share.threads_per_rank for share in layout.shares] == [8, 8]
