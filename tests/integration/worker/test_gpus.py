"""The GPUs of a host, through the real NVML binding and a library that stands in for the driver's."""

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

from worker.host import gpus as gpus_module
from worker.host.gpus import LOST, GpuReading, find_gpus, is_in_use, is_lost
from worker.host.topology import gpu_info, ranges

Cards = Callable[..., None]

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


def test_a_failure_of_the_binding_makes_only_one_metric_unknown(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    cards("w")
    [gpu] = find_gpus()
    for failure in (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), pynvml.NVMLLibraryMismatchError(), TypeError()):

        def fails(_handle: object, failure: Exception = failure) -> int:
            raise failure

        monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", fails)
        assert gpu.read() == replace(WELL, power_w=None)


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


def test_a_card_is_lost_when_every_metric_refuses_its_handle(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    cards("w")
    [gpu] = find_gpus()

    def refuses(_handle: object) -> float:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

    monkeypatch.setattr(gpus_module, "_METRICS", {**gpus_module._METRICS, "power_w": refuses})
    assert gpu.read() == replace(WELL, power_w=None)
    monkeypatch.setattr(gpus_module, "_METRICS", dict.fromkeys(gpus_module._METRICS, refuses))
    assert gpu.read() == LOST


def test_a_card_in_mig_mode_is_logged_and_has_no_utilization(cards: Cards, caplog: pytest.LogCaptureFixture) -> None:
    cards("wm")
    gpus = find_gpus()
    assert [gpu.mig for gpu in gpus] == [False, True]
    assert [gpu.read() for gpu in gpus] == [WELL, replace(WELL, percent=None)]
    assert "GPU 1 (GPU-01) is in MIG mode: its utilization cannot be read" in caplog.messages


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
