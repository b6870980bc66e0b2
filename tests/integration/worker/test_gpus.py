"""The GPUs of a host, through the real NVML binding and a library that stands in for the driver's.

What is read of them, and what the sampler reports: their readings, their errors, and who else uses them.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Slot
from jobs.lifecycle import leases
from jobs.model.states import EndReason
from jobs.scheduling import registration
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from tests.integration.worker.samples import MakeSampler, stored_host_samples, stored_samples
from worker.host import gpus as gpus_module
from worker.host.gpus import LOST, GpuReading, find_gpus, is_in_use, is_lost
from worker.host.topology import gpu_info, ranges
from worker.sampling import sampler as sampler_module
from worker.sampling.sampler import Sampler

Cards = Callable[..., None]
Sampling = Callable[[str], Sampler]

LOOK = """
import json
from dataclasses import asdict
from worker.host.gpus import find_gpus, is_in_use
gpus = find_gpus()
found = [gpu.uuid for gpu in gpus]
print(json.dumps({"found": found, "in_use": is_in_use("GPU-00"), "read": [asdict(gpu.read()) for gpu in gpus]}))
"""
WELL = GpuReading(
    percent=97.0, memory_bytes=7 << 30, power_w=412.5, temperature_c=61.0, sm_clock_mhz=1980.0, throttle=4, processes=0
)
NOTHING = GpuReading()


def look_in_process(folder: Path, letters: str = "") -> dict[str, Any]:
    """What a worker sees whose libraries are searched for in `folder`."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "NVML_STUB": letters}
    done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_binding_loads_the_library_that_the_system_finds(drivers: dict[str, Path], tmp_path: Path) -> None:
    host = look_in_process(drivers["new"], "wp")
    assert host["found"] == ["GPU-00", "GPU-01"]
    assert host["read"] == [asdict(WELL), asdict(replace(WELL, processes=1))]
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert look_in_process(tmp_path) == {"found": [], "in_use": False, "read": []}


def test_every_card_that_can_be_opened_is_found(cards: Cards, caplog: pytest.LogCaptureFixture) -> None:
    cards("wxlzug" + "w" * 10)
    gpus = find_gpus()
    assert [gpu.index for gpu in gpus] == [0, 4, 5, *range(6, 16)]
    assert [(gpu.uuid, gpu.name, gpu.memory_bytes) for gpu in gpus[:3]] == [
        ("GPU-00", "Stub H200", 150 << 30),
        ("GPU-04", "Stub H200", None),
        ("GPU-05", "GPU", 150 << 30),  # its name is no text
    ]
    for index in (1, 2, 3):
        assert f"GPU {index} cannot be opened and is left out" in caplog.text


def test_a_driver_with_an_impossible_count_has_no_gpus(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    cards("w")
    monkeypatch.setenv("NVML_STUB_COUNT", "")
    assert find_gpus() == []


def test_an_unsupported_metric_and_an_impossible_value_are_unknown_and_logged_once(
    cards: Cards, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cards("wug")
    well, unsupported, garbage = find_gpus()
    for _ in range(3):
        assert (well.read(), unsupported.read(), garbage.read()) == (WELL, NOTHING, NOTHING)
    assert not is_in_use("GPU-02")
    for number in (1, 2):  # the name, the MIG mode, and seven metrics
        messages = [message for message in caplog.messages if f"GPU {number} " in message]
        assert len(messages) == len(set(messages)) == 9, messages
    assert any("does not report its percent: 4000000000, of at most 100" in message for message in caplog.messages)
    assert "GPU 0" not in caplog.text


def test_a_failure_of_the_binding_makes_one_metric_unknown_and_a_card_is_lost_if_every_metric_refuses_its_handle(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards("w")
    [gpu] = find_gpus()
    refusal = pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    undecodable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
    for failure in (undecodable, pynvml.NVMLLibraryMismatchError(), TypeError(), refusal):

        def fails(_handle: object, failure: Exception = failure) -> int:
            raise failure

        monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", fails)
        assert gpu.read() == replace(WELL, power_w=None)
    monkeypatch.setattr(gpus_module, "_METRICS", dict.fromkeys(gpus_module._METRICS, fails))
    assert gpu.read() == LOST


def test_a_lost_card_is_picked_up_again_when_it_is_back(
    cards: Cards, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(gpus_module.time, "monotonic", lambda: now)
    cards("ww")
    stays, goes = find_gpus()
    cards("wl")
    for _ in range(3):
        assert (stays.read(), goes.read()) == (WELL, LOST)
    assert [is_lost(gpu.uuid) for gpu in (stays, goes)] == [False, True]
    now += 11
    assert goes.read() == LOST  # looked for, and still away
    cards("ww")
    now += 9
    assert goes.read() == LOST  # it is not looked for in every sample
    now += 2
    assert goes.read() == WELL
    assert not is_lost(goes.uuid)
    assert [message for message in caplog.messages if "GPU-01" in message] == [
        "GPU 1 (GPU-01) is lost",
        "GPU 1 (GPU-01) is back",
    ]


def test_an_old_driver_is_read_through_its_old_function_names(cards: Cards) -> None:
    cards("wp", driver="old")
    gpus = find_gpus()
    old = replace(WELL, throttle=8, memory_bytes=15 << 29)  # with what the driver keeps for itself
    assert [gpu.read() for gpu in gpus] == [old, replace(old, processes=1)]
    assert is_in_use("GPU-01")
    info = gpu_info(gpus)
    assert info["driver"] == {"version": "550.54.15", "cuda": None}
    assert info["topology"] == [{"gpus": [0, 1], "nvlinks": None, "pcie": None}]
    assert (info["gpus"][0]["mig"], info["gpus"][0]["cpus"], info["gpus"][0]["numa_node"]) == (None, None, None)


def test_a_host_reports_how_its_cards_are_connected(cards: Cards) -> None:
    cards("w" * 15 + "u")
    info = gpu_info(find_gpus())
    assert info["driver"] == {"version": "550.54.15", "cuda": "12.4"}
    assert info["gpus"][8] == {
        "index": 8, "uuid": "GPU-08", "name": "Stub H200", "memory_bytes": 150 << 30, "mig": False, "cpus": "64-79",
        "numa_node": 1,
    }  # fmt: skip
    assert [ranges(numbers) for numbers in ([], [3], [0, 1, 2, 3, 8, 10, 11])] == ["", "3", "0-3,8,10-11"]
    pairs = {tuple(pair["gpus"]): (pair["nvlinks"], pair["pcie"]) for pair in info["topology"]}
    assert len(info["topology"]) == len(pairs) == 16 * 15 // 2
    assert pairs[0, 1] == (2, "multiple")  # to each other
    assert pairs[0, 2] == (0, "multiple")  # one has direct links, the other a switch
    assert pairs[2, 3] == (4, "multiple")  # through the switch
    assert pairs[2, 8] == (4, "system")
    assert pairs[2, 15] == (0, None)


def test_gpu_readings_are_stored_for_leased_slots_and_once_a_period_for_all(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards
) -> None:
    register_gpus(sessions, cards, "wmgp")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=3), slots=(0, 1, 2))
    sampler = make_sampler(report_period_s=3600.0)
    assert sampler.sample() == 3
    assert [
        (row.job_id, row.gpu_percent, row.gpu_memory_bytes, row.gpu_power_w, row.gpu_throttle, row.gpu_processes)
        for row in stored_samples(sessions)
    ] == [
        (lease.job_id, 97.0, 7 << 30, 412.5, 4, 0),
        (lease.job_id, None, 7 << 30, 412.5, 4, 0),
        (lease.job_id, None, None, None, None, None),
    ]
    readings = [slot.reading for slot in job_rows.the_slots(sessions)]
    assert [(reading["percent"], reading["processes"], reading["is_lost"]) for reading in readings if reading] == [
        (97.0, 0, False), (None, 0, False), (None, None, False), (97.0, 1, False),
    ]  # fmt: skip
    at = {reading["at"] for reading in readings if reading}
    assert at == {row.at.isoformat() for row in stored_host_samples(sessions)}
    for _ in range(3):  # the process of another changed the state of its card
        assert sampler.sample() == 3
    before = [slot.reading for slot in job_rows.the_slots(sessions)]
    assert sampler.sample() == 3
    assert [slot.reading for slot in job_rows.the_slots(sessions)] == before
    assert len(stored_host_samples(sessions)) == 5


def register_gpus(sessions: Sessions, cards: Cards, letters: str) -> None:
    """Host `ha` with cards of the stub."""
    cards(letters)
    job_rows.a_host(sessions, slots=len(letters), kind="gpu")
    with sessions.begin() as session:
        for index in range(len(letters)):
            session.execute(update(Slot).where(Slot.index == index).values(uuid=f"GPU-{index:02}"))


@pytest.fixture
def sampling(sessions: Sessions, make_sampler: MakeSampler, cards: Cards) -> Sampling:
    """Gives host `ha` these cards. Returns its sampler after the first sample."""

    def sampling(letters: str) -> Sampler:
        register_gpus(sessions, cards, letters)
        sampler = make_sampler(report_period_s=3600.0)
        sampler.sample()
        return sampler

    return sampling


def why_unhealthy(sessions: Sessions) -> list[str | None]:
    return [slot.unhealthy for slot in job_rows.the_slots(sessions)]


def in_use_by_others(sessions: Sessions) -> list[bool]:
    return [slot.in_use_by_others for slot in job_rows.the_slots(sessions)]


def test_a_lost_card_is_unhealthy_at_once_until_it_is_back(
    sessions: Sessions, sampling: Sampling, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    sampler = sampling("www")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[1])
    cards("wll")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus", "it is off the bus"]
    assert job_rows.holders(sessions) == [None, lease.attempt_id, None]  # the lease stays until the attempt ends
    assert [slot.reading["is_lost"] for slot in job_rows.the_slots(sessions) if slot.reading] == [False, True, True]
    cards("www")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None, None]
    assert [slot.retired_at for slot in job_rows.the_slots(sessions)] == [None, None, None]


def test_a_change_of_a_locked_row_is_told_again(sessions: Sessions, sampling: Sampling, cards: Cards) -> None:
    sampler = sampling("ww")
    cards("ll")
    with sessions.begin() as session:
        session.execute(select(Slot.index).where(Slot.index == 0).with_for_update()).all()
        sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus"]
    sampler.sample()
    assert why_unhealthy(sessions) == ["it is off the bus", "it is off the bus"]


def test_a_slot_that_is_offered_no_more_is_retired(sessions: Sessions, make_sampler: MakeSampler, cards: Cards) -> None:
    register_gpus(sessions, cards, "ww")
    write(sessions, registration.register, "ha", {}, [SlotInfo(0, "gpu", "gpu", "GPU-00")])
    make_sampler().sample()
    assert [slot.retired_at is None for slot in job_rows.the_slots(sessions)] == [True, False]
    assert [slot.reading is None for slot in job_rows.the_slots(sessions)] == [False, True]


def test_a_card_with_an_xid_error_is_unhealthy_until_the_worker_restarts(
    sessions: Sessions, make_sampler: MakeSampler, sampling: Sampling, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = sampling("www")
    monkeypatch.setenv("NVML_STUB_XIDS", "0:13 2:31 1:48")  # the first two are errors of programs
    sampler.sample()
    text_48 = "XID 48: an ECC error in its memory that cannot be corrected (until the worker restarts)"
    assert why_unhealthy(sessions) == [None, text_48, None]
    monkeypatch.setenv("NVML_STUB_XIDS", "0:13 2:31 1:48 2:901")
    for _ in range(3):
        sampler.sample()
    assert why_unhealthy(sessions) == [None, text_48, "XID 901 (until the worker restarts)"]
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    cards("wlw")
    sampler.sample()
    assert why_unhealthy(sessions)[1] == "it is off the bus"
    cards("www")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None, "XID 901 (until the worker restarts)"]
    monkeypatch.setenv("NVML_STUB_XIDS", "")
    make_sampler().sample()
    assert why_unhealthy(sessions) == [None, None, None]


def test_a_card_whose_memory_has_errors_is_unhealthy_while_it_reports_them(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, caplog: pytest.LogCaptureFixture
) -> None:
    register_gpus(sessions, cards, "werfu")
    sampler = make_sampler()
    for _ in range(3):
        sampler.sample()
    assert why_unhealthy(sessions) == [
        None,
        "3 ECC errors since its driver started, which cannot be corrected",
        "defective rows of its memory are replaced when the GPU is reset",
        "defective rows of its memory cannot be replaced",
        None,
    ]
    assert len([message for message in caplog.messages if "3 ECC errors" in message]) == 1
    cards("wwwwu", driver="old")  # an old driver reports no errors
    make_sampler().sample()
    assert why_unhealthy(sessions) == [None] * 5


def test_a_free_card_on_which_a_process_computes_is_in_use_by_others_until_it_is_gone(
    sessions: Sessions, sampling: Sampling, cards: Cards
) -> None:
    sampler = sampling("wwwu")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2])
    cards("wppu")
    sampler.sample()
    assert in_use_by_others(sessions) == [False, True, False, False]  # the process on card 2 may be its rank
    cards("wwpu")
    sampler.sample()
    assert in_use_by_others(sessions) == [False, False, False, False]
    write(sessions, leases.end, lease, EndReason.RANK_FAILED, backoff_s=100)
    sampler.sample()
    assert in_use_by_others(sessions) == [False] * 4  # the ended attempt still holds its slot
    write(sessions, leases.release, lease.attempt_id)
    sampler.sample()
    assert in_use_by_others(sessions) == [False] * 4  # the card may have been read before the slot was released
    sampler.sample()
    assert in_use_by_others(sessions) == [False, False, True, False]


def test_a_card_that_was_leased_after_it_was_read_is_not_in_use_by_others(
    sessions: Sessions, sampling: Sampling, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = sampling("w")
    cards("p")
    job_id = job_rows.a_job(sessions, gpus=1)
    leased = sampler_module.leased_slots

    def leased_later(*arguments: object) -> object:
        job_rows.an_attempt(sessions, job_id, slots=[0])
        return leased(*arguments)

    monkeypatch.setattr(sampler_module, "leased_slots", leased_later)
    sampler.sample()
    assert in_use_by_others(sessions) == [False]
