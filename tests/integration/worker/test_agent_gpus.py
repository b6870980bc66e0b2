"""The agent of a host with GPUs: what it registers, and what happens to a GPU that is lost during an attempt."""

from collections.abc import Callable

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.model.states import EndReason, Status
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import host
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of
from worker.host.gpus import find_gpus


def test_a_host_registers_its_gpus_and_how_they_are_connected(
    sessions: Sessions, settings: Settings, hints: Hints, cards: Callable[..., None]
) -> None:
    cards("wm")
    agent_of(sessions, settings, hints, gpus=find_gpus(), slots=None).reconcile()
    with sessions() as session:
        found = host(session, "ha", host_timeout_s=30)
    assert [(slot.index, slot.kind, slot.uuid) for slot in found.slots] == [(0, "gpu", "GPU-00"), (1, "gpu", "GPU-01")]
    assert [gpu["mig"] for gpu in found.info["gpus"]] == [False, True]
    assert found.info["topology"] == [{"gpus": [0, 1], "nvlinks": 2, "pcie": "multiple"}]
    assert found.info["driver"] == {"version": "550.54.15", "cuda": "12.4"}
    assert found.info["cores"]


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
