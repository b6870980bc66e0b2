"""Horovod compiles with NCCL from NVIDIA's wheels, and what it makes trains on CPUs. It needs no GPU."""

import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long("releases"), pytest.mark.timeout(3600)]  # the first time NVIDIA's compiler runs

ROOT = Path(__file__).parents[2]


def test_horovod_is_built_for_gpus_and_trains() -> None:
    done = subprocess.run(["make", "gpu-build-test"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
