"""Which slots a host offers, by what TensorFlow says of its cards, and what becomes of GPUs that are lost or used.

The cards are those of the NVML stub. TensorFlow is the real one, which is built for CPUs here; where it should list
cards, a small program answers in its place.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.db.engine import Sessions
from jobs.model.states import EndReason, Status
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.hosts import HostNow, host
from jobs.scheduling.registration import GpuState, SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import MakeAgent
from tests.integration.worker.conftest import pid_in
from tests.waiting import until
from worker.attempt.shares import layout_of
from worker.host.devices import Answer, Devices, Offer, Question, Usable, offer_of, usable_of
from worker.host.gpus import Gpu, find_gpus

Cards = Callable[..., None]

# Answers like `trainer.devices` with a TensorFlow for GPUs that can use all cards but the ones in BAD.
PROGRAM = """
import json, os
shown = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
bad = {bad!r}
good = [] if bad and len(shown) > 1 else [uuid for uuid in shown if uuid not in bad]
why = None if good else "failed call to cuInit"
print(json.dumps(dict(version="2.18.1", cuda=True, gpus=len(good), nccl={nccl}, why=why)))
"""
ALL = Usable(Answer("2.18.1", cuda=True, gpus=2, nccl=True))


def program(*bad: str, nccl: bool = True) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(bad=bad, nccl=nccl)]


def slots_in(offer: Offer | None) -> list[tuple[int, str, str | None]]:
    assert offer is not None
    return [(slot.index, slot.kind, slot.uuid) for slot in offer.slots]


def settle(settings: Settings, gpus: Sequence[Gpu], program: Sequence[str]) -> Offer:
    """The offer of a host, once TensorFlow has answered."""
    devices = Devices(settings, gpus, program=program)
    devices.start()
    devices.join(120)
    assert devices.offer is not None
    return devices.offer


def test_gpus_that_can_be_used_are_offered_and_cpu_slots_beside_them_if_asked_for(cards: Cards) -> None:
    cards("wxw")
    gpus = find_gpus()
    both = [(0, "gpu", "GPU-00"), (2, "gpu", "GPU-02")]
    for device in ("auto", "gpu"):
        assert offer_of(Settings(device=device), gpus, ALL).problem is None
        assert slots_in(offer_of(Settings(device=device), gpus, ALL)) == both
        assert slots_in(offer_of(Settings(device=device, slots=0), gpus, ALL)) == both
        assert slots_in(offer_of(Settings(device=device, slots=2), gpus, ALL)) == [
            *both, (3, "cpu", None), (4, "cpu", None),
        ]  # fmt: skip


def test_a_host_without_gpus_or_set_to_cpu_offers_its_cpu_slots_at_once() -> None:
    devices = Devices(Settings(slots=2), [], program=["false"])
    assert slots_in(devices.offer) == [(0, "cpu", None), (1, "cpu", None)]
    assert devices.offer is not None
    assert devices.offer.problem is None
    assert slots_in(offer_of(Settings(device="cpu", slots=1), [], None)) == [(0, "cpu", None)]
    assert slots_in(offer_of(Settings(device="cpu", slots=0), [], None)) == []
    without = offer_of(Settings(device="gpu", slots=4), [], None)
    assert without == Offer([], "HORA_DEVICE is gpu, but no GPU is here: no NVIDIA driver")


def test_tensorflow_for_cpus_makes_a_host_with_gpus_offer_cpu_slots(
    cards: Cards, drivers: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cards("wa")
    gpus, settings = find_gpus(), Settings(home=tmp_path, slots=3)
    devices = Devices(settings, gpus)  # the real program, which imports TensorFlow
    assert devices.offer is None
    devices.run()
    why = (
        "2 GPUs (Stub A100 40 GB, Stub H200) are here, but TensorFlow 2.18.1 is built for CPUs: `HORA_DEVICE=gpu make"
        " setup` installs the one for GPUs"
    )
    assert devices.offer is not None
    assert (slots_in(devices.offer), devices.offer.problem) == ([(index, "cpu", None) for index in range(3)], why)
    assert why in caplog.text
    in_use = Usable(Answer("2.18.1"), {"GPU-00": "x", "GPU-01": "x"})
    assert offer_of(Settings(device="gpu", slots=3), gpus, in_use) == Offer([], why)


def test_the_program_of_the_doctor_says_what_the_worker_would_offer(drivers: dict[str, Path], tmp_path: Path) -> None:
    environment = {"NVML_STUB": "w", "HORA_HOME": str(tmp_path), "HORA_SLOTS": "2"}

    def told(device: str, driver: str) -> dict[str, Any]:
        variables = os.environ | environment | {"HORA_DEVICE": device, "LD_LIBRARY_PATH": driver}
        argv = [sys.executable, "-m", "worker.host.devices"]
        facts: dict[str, Any] = json.loads(subprocess.run(argv, env=variables, capture_output=True, check=True).stdout)
        return facts

    assert told("cpu", str(drivers["new"])) == {
        "setting": "cpu", "no_gpus": None, "driver": None, "gpus": [], "tensorflow": None, "nccl": None,
        "slots": {"gpu": 0, "cpu": 2}, "problem": None,
    }  # fmt: skip
    without = told("auto", "")
    assert (without["no_gpus"], without["slots"]) == ("no NVIDIA driver", {"gpu": 0, "cpu": 2})


def test_cards_that_tensorflow_cannot_use_or_not_together_are_not_offered(cards: Cards, tmp_path: Path) -> None:
    cards("ww")
    offer = settle(Settings(home=tmp_path, slots=1), find_gpus(), program("GPU-00", "GPU-01"))
    assert slots_in(offer) == [(0, "cpu", None)]
    assert offer.problem == "2 GPUs (Stub H200) are here, but TensorFlow 2.18.1 can use none: failed call to cuInit"
    usable = usable_of(["a", "b"], lambda uuids: Answer("2.18.1", cuda=True, gpus=min(1, len(uuids))))
    assert usable.unusable == {"a": "it lists 1 of 2", "b": "it lists 1 of 2"}


def test_several_gpus_without_nccl_are_offered_with_a_warning(cards: Cards, tmp_path: Path) -> None:
    cards("ww")
    offer = settle(Settings(home=tmp_path), find_gpus(), program(nccl=False))
    assert [slot.kind for slot in offer.slots] == ["gpu", "gpu"]
    assert "Horovod is built without NCCL" in (offer.problem or "")
    cards("w")
    assert settle(Settings(home=tmp_path), find_gpus(), program(nccl=False)).problem is None


@pytest.mark.parametrize(
    ("script", "limit_s", "why"),
    [
        ("import sys; sys.exit('no such module')", 240.0, "it cannot be asked: exit code 1, no such module"),
        ("import os; os.kill(os.getpid(), 11)", 240.0, "it cannot be asked: exit code -11, no message"),
        ("print('Hello')", 240.0, "it cannot be asked: exit code 0, no message"),
        ("print('{\"unknown\": 1}')", 240.0, "it cannot be asked: exit code 0, no message"),
        ("import time; time.sleep(600)", 1.0, "it did not answer within 1 s"),
    ],
)
def test_a_program_that_fails_or_hangs_gives_a_reason(tmp_path: Path, script: str, limit_s: float, why: str) -> None:
    question = Question(Settings(home=tmp_path), [sys.executable, "-c", script], limit_s=limit_s)
    answer = question.ask(["GPU-00"])
    assert (answer.version, answer.why) == (None, why)


def test_a_worker_that_stops_ends_the_question(cards: Cards, tmp_path: Path) -> None:
    cards("w")
    pid_file = tmp_path / "pid"
    script = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    devices = Devices(Settings(home=tmp_path), find_gpus(), program=[sys.executable, "-c", script])
    devices.start()
    process = ProcessId.of(pid_in(pid_file))
    devices.stop(wait_s=60)
    assert not devices.is_alive()
    assert process is not None
    until(lambda: not process.is_alive, what="the end of the program")


def test_the_question_is_asked_in_the_environment_of_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DATABASE_URL", "postgresql://u:t0p@h/d")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    script = "import json, os; print(json.dumps(dict(why=json.dumps(dict(os.environ)))))"
    answer = Question(Settings(home=tmp_path), [sys.executable, "-c", script]).ask(["GPU-00", "GPU-01"])
    given = json.loads(answer.why or "")
    assert (given["CUDA_VISIBLE_DEVICES"], given["HOME"]) == ("GPU-00,GPU-01", str(tmp_path))
    assert not [name for name in given if name.startswith("HORA_")]


def known_host(sessions: Sessions) -> HostNow:
    with sessions() as session:
        return host(session, "ha", host_timeout_s=30)


def test_a_host_says_its_offer(sessions: Sessions, settings: Settings, make_agent: MakeAgent, cards: Cards) -> None:
    cards("wm")
    gpus = find_gpus()
    agent = make_agent(gpus=gpus)
    agent.reconcile()
    info = known_host(sessions).info
    assert "device_problem" not in info
    assert [gpu["mig"] for gpu in info["gpus"]] == [False, True]
    assert info["topology"] == [{"gpus": [0, 1], "nvlinks": 2, "pcie": "multiple"}]
    assert (info["driver"], info["cores"] > 0) == ({"version": "550.54.15", "cuda": "12.4"}, True)

    agent = make_agent(gpus=gpus)
    agent._devices.offer = settle(settings, gpus, program("GPU-01"))
    agent.reconcile()
    slots = job_rows.the_slots(sessions)
    assert [slot.unhealthy for slot in slots] == [None, "TensorFlow cannot use it: failed call to cuInit", None, None]
    assert [(slot.index, slot.kind) for slot in slots] == [(0, "gpu"), (1, "gpu"), (2, "cpu"), (3, "cpu")]
    assert known_host(sessions).info["device_problem"] == "TensorFlow 2.18.1 can use 1 of 2 GPUs"


def test_no_job_is_placed_on_slots_of_an_earlier_worker_until_the_devices_are_known(
    sessions: Sessions, make_agent: MakeAgent, cards: Cards
) -> None:
    cards("ww")
    make_agent(gpus=find_gpus()).reconcile()
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    job_rows.end_attempt(sessions, lease, EndReason.CANCELLED, releases=False)
    agent = make_agent(gpus=find_gpus())
    offer, agent._devices.offer = agent._devices.offer, None
    agent.reconcile()
    waiting = known_host(sessions)
    assert (waiting.alive, [slot.kind for slot in waiting.slots]) == (False, ["gpu", "gpu", "cpu", "cpu"])
    assert job_rows.holders(sessions) == [None] * 4  # attempts of this host are looked after meanwhile
    agent._devices.offer = offer
    agent.reconcile()
    assert known_host(sessions).alive


def test_a_slot_of_another_device_keeps_nothing(sessions: Sessions, make_agent: MakeAgent, cards: Cards) -> None:
    cards("pw")
    make_agent(gpus=find_gpus()).reconcile()
    with sessions.begin() as session:
        registration.store_readings(session, "ha", {"GPU-00": GpuState({"percent": 1}, in_use=True)})
    make_agent(gpus=find_gpus()).reconcile()
    slots = job_rows.the_slots(sessions)
    assert [(slot.in_use_by_others, slot.reading) for slot in slots[:2]] == [(True, {"percent": 1}), (False, None)]
    make_agent(device="cpu").reconcile()
    slots = job_rows.the_slots(sessions)
    seen = [(slot.kind, slot.in_use_by_others, slot.reading, slot.unhealthy) for slot in slots[:2]]
    assert seen == [("cpu", False, None, None)] * 2
    assert [slot.retired_at is None for slot in slots] == [True, True, False, False]


def test_an_attempt_does_not_start_on_a_gpu_that_others_use_and_a_lost_one_is_unhealthy_afterwards(
    sessions: Sessions, make_agent: MakeAgent, cards: Cards
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


def test_a_gpu_that_others_use_is_not_free(sessions: Sessions, make_agent: MakeAgent, cards: Cards) -> None:
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


def test_a_gpu_in_use_is_not_free(sessions: Sessions, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
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
