"""The GPUs of a host, through the real NVML binding and a library that stands in for the driver's."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STUB = Path(__file__).with_name("nvml_stub.c")
LOOK = """
import json
from dataclasses import asdict
from worker.agent import slots_of
from worker.gpus import find_gpus, is_in_use, read
gpus = find_gpus()
in_use = [uuid for uuid in ("GPU-0", "GPU-1", "GPU-3", "GPU-9") if is_in_use(uuid)]
slots = [asdict(slot) for slot in slots_of(gpus, 3)]
print(json.dumps({"in_use": in_use, "slots": slots, "read": [asdict(read(gpu)) for gpu in gpus]}))
"""
WELL = {
    "percent": 97.0,
    "memory_bytes": 7 << 30,
    "power_w": 412.5,
    "temperature_c": 61.0,
    "sm_clock_mhz": 1980.0,
}


def looked(folder: Path) -> dict[str, Any]:
    """What a worker sees whose libraries are searched for in `folder`."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `libnvidia-ml.so.1`."""
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, STUB], check=True)
    return folder


@pytest.fixture(scope="module")
def host(driver: Path) -> dict[str, Any]:
    """What a worker sees on the host of the stub."""
    return looked(driver)


def test_every_card_that_can_be_opened_is_a_slot(host: dict[str, Any]) -> None:
    memory = 150 << 30
    assert [(slot["index"], slot["kind"], slot["uuid"], slot["memory_bytes"]) for slot in host["slots"]] == [
        (0, "gpu", "GPU-0", memory),
        (1, "gpu", "GPU-1", memory),
        (3, "gpu", "GPU-3", None),
    ]
    assert [slot["name"] for slot in host["slots"]] == ["Stub H200", "Stub H200", "GPU"]


def test_a_card_that_is_well_is_read_whole(host: dict[str, Any]) -> None:
    assert host["read"][0] == WELL


def test_what_a_card_does_not_support_is_null_and_the_rest_is_there(host: dict[str, Any]) -> None:
    assert host["read"][1] == WELL | {"power_w": None}


def test_a_card_that_is_lost_gives_nulls_and_no_error(host: dict[str, Any]) -> None:
    assert host["read"][2] == dict.fromkeys(WELL)


def test_a_card_on_which_a_process_computes_is_in_use(host: dict[str, Any]) -> None:
    assert host["in_use"] == ["GPU-1"]


def test_a_host_without_the_library_has_cpu_slots(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    host = looked(tmp_path)
    assert [(slot["index"], slot["kind"], slot["uuid"]) for slot in host["slots"]] == [
        (0, "cpu", None),
        (1, "cpu", None),
        (2, "cpu", None),
    ]
    assert host["read"] == host["in_use"] == []
