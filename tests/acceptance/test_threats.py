"""A hostile spec and a stranger on the network cannot harm a running job.

The spec is valid: its data really lies at a path that a shell would read as commands.
"""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow
import pytest
from pyarrow import parquet

from hora.service import Json, Service
from hora.stack.control import Stack
from jobs.runtime.processes import mark_of
from tests.acceptance.conftest import ENDLESS, kinds, wait_for_epochs
from tests.waiting import until
from worker.attempt.processes import pids_of_attempt

STORE_SECRET = "correct-horse-battery-staple"
STORE_SETTINGS = {
    "HORA_STORE_OPTIONS": json.dumps({"secret": STORE_SECRET}), "AWS_SECRET_ACCESS_KEY": STORE_SECRET,
    "GOOGLE_APPLICATION_CREDENTIALS": f"/etc/{STORE_SECRET}", "AZURE_STORAGE_KEY": STORE_SECRET,
}  # fmt: skip


class Trap(NamedTuple):
    """A stack with such data, and the canary file that nothing may create."""

    stack: Stack
    client: Service
    canary: Path
    text: str  # creates the canary if a shell runs it


@pytest.fixture(scope="module")
def trap(session_folder: Path) -> Iterator[Trap]:
    """A stack whose data root has a file at a path full of commands. It has a store, and credentials for it."""
    root, canary = session_folder / "trap", session_folder / "canary"
    text = f"-x ; $(touch {canary}) `touch {canary}` '\" | touch {canary} & ${{IFS}} #"
    where = root / text
    where.parent.mkdir(parents=True)
    features = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    columns = {f"-f{number}": features[:, number] for number in range(8)}
    table = pyarrow.table({**columns, text: (features[:, 0] > 0).astype(np.int64)})
    parquet.write_table(table, f"{where}.parquet")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HORA_DATA_ROOTS", str(root))
        environment.setenv("HORA_STORE", f"file://{session_folder}/{STORE_SECRET}")
        for name, value in STORE_SETTINGS.items():
            environment.setenv(name, value)
        environment.setenv("HORA_RANK_ENV", f"NCCL_IB_HCA=mlx5_0,mlx5_1,NCCL_DEBUG_FILE=of {text},HOROVOD_CYCLE_TIME=2")
        with Stack(session_folder / "trapped", port=0, slots=2) as stack, Service(stack.url, stack.token) as client:
            yield Trap(stack, client, canary, text)


@pytest.fixture(scope="module")
def running(trap: Trap) -> Iterator[Json]:
    """A training job on two ranks with that text in every field that accepts it."""
    spec = ENDLESS | {
        "name": "LD_PRELOAD -x --",
        "dataset": {"source": f"{trap.text}.parquet", "label": trap.text, "format": "parquet"},
        "labels": {"LD_PRELOAD": trap.text, "HORA_ATTEMPT": trap.text, "PATH": trap.text},
        "checkpoint": {"every_epochs": 100},  # each lies there for some seconds, so that it is copied
    }
    job = trap.client.submit(spec)
    yield wait_for_epochs(trap.client, job["id"], epochs=1)
    trap.client.cancel(job["id"])
    assert trap.client.wait(job["id"], timeout_s=240)["status"] == "cancelled"


def processes_of(job: Json) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in pids_of_attempt(mark_of(job["id"], job["attempt"]))]


def test_no_shell_reads_a_text_of_a_spec_or_a_variable_of_the_operator(trap: Trap, running: Json) -> None:
    assert running["spec"]["dataset"]["label"] == running["labels"]["PATH"] == trap.text
    assert not trap.canary.exists()
    environments = [process.environ() for process in processes_of(running)]
    assert environments
    assert all(trap.text not in variables.values() for variables in environments)
    assert all(variables.get("LD_PRELOAD") in (None, os.environ.get("LD_PRELOAD")) for variables in environments)
    ranks = [variables for variables in environments if "HOROVOD_RANK" in variables]
    assert {rank["HOROVOD_RANK"] for rank in ranks} == {"0", "1"}
    for rank in ranks:
        assert rank["NCCL_IB_HCA"] == "mlx5_0,mlx5_1"
        assert rank["NCCL_DEBUG_FILE"] == f"of {trap.text}"
        assert rank["HOROVOD_CYCLE_TIME"] == "2"


def test_no_process_of_the_job_has_a_secret_and_no_file_has_one_of_the_store(trap: Trap, running: Json) -> None:
    processes = processes_of(running)
    assert processes
    for process in processes:
        known = " ".join([*process.cmdline(), *process.environ().values()])
        assert trap.stack.token not in known
        assert STORE_SECRET not in known
    until(lambda: "checkpoint_copied" in kinds(trap.client, running["id"]), what="a copy in the store")
    files = [path for path in (trap.stack.home / "runs" / running["id"]).rglob("*") if path.is_file()]
    assert any("launch" in path.parts for path in files)
    assert [path for path in files if STORE_SECRET.encode() in path.read_bytes()] == []


def test_a_job_on_one_host_opens_no_port_to_the_network(running: Json) -> None:
    """Horovod's rendezvous server unpickles whatever it receives, without authentication."""

    def listening() -> set[tuple[str, int]]:
        found = [c for process in processes_of(running) for c in process.net_connections("inet")]
        return {tuple(c.laddr) for c in found if c.status == psutil.CONN_LISTEN}

    ports = until(listening, what="ports of the job")
    assert {address for address, _ in ports} <= {"127.0.0.1", "::1"}
    for family, address in addresses_of_this_machine():
        for _, port in ports:
            with socket.socket(family) as stranger:
                stranger.settimeout(2)
                assert stranger.connect_ex((address, port)) != 0, f"{address}:{port} lets strangers in"


def addresses_of_this_machine() -> list[tuple[socket.AddressFamily, str]]:
    """The addresses that other machines can reach, and a loopback address other than 127.0.0.1."""
    known = [(entry.family, entry.address) for found in psutil.net_if_addrs().values() for entry in found]
    others = [
        (family, address)
        for family, address in known
        if family in (socket.AF_INET, socket.AF_INET6) and address not in ("127.0.0.1", "::1") and "%" not in address
    ]
    return [*others, (socket.AF_INET, "127.0.0.2")]
