"""Hosts that share no disk, and a store: what a job saved survives the loss of its host for good."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.acceptance.conftest import Json, points, wait_for_epochs
from tests.acceptance.hosts import Hosts, reason_to_skip
from tests.waiting import slowdown, until

SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 8, "learning_rate": 0.001, "epochs": 40, "early_stopping": None,
}  # fmt: skip


@pytest.fixture
def hosts(session_folder: Path, tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts with a slot each, which share a store and nothing else."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    factor = min(slowdown(), 5)
    times = {
        "HORA_LEASE_S": f"{10 * factor:.1f}", "HORA_HOST_TIMEOUT_S": f"{6 * factor:.1f}",
        "HORA_LEASE_RENEWAL_S": "1", "HORA_HEARTBEAT_PERIOD_S": "1", "HORA_STORE": f"file://{tmp_path}/team",
    }  # fmt: skip
    with Hosts(session_folder / "with-store", ("ha", "hb"), times) as hosts:
        yield hosts


def weights_in(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file of weights."""
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: arrays.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
        )
    return arrays


def copied_steps(hosts: Hosts, job_id: str) -> list[int]:
    return [event["data"]["step"] for event in hosts.client.events(job_id) if event["kind"] == "checkpoint_copied"]


def test_a_job_goes_on_elsewhere_when_its_host_is_lost_for_good(hosts: Hosts, tmp_path: Path) -> None:
    client = hosts.client
    undisturbed: Json = client.wait(client.submit(SPEC)["id"], timeout_s=240)
    assert undisturbed["status"] == "succeeded"
    job_id = client.submit(SPEC)["id"]
    wait_for_epochs(client, job_id, epochs=2)
    until(lambda: copied_steps(hosts, job_id), what="a checkpoint in the store")
    lost = client.attempts(job_id)[0]["host"]
    hosts[lost].lose()
    job = client.wait(job_id, timeout_s=240)
    first, second = client.attempts(job_id)
    assert (job["status"], first["end_reason"]) == ("succeeded", "host_lost")
    assert second["host"] != lost
    assert second["resumed_step"] in copied_steps(hosts, job_id)
    assert points(client, job_id, "loss") == points(client, undisturbed["id"], "loss")
    until(lambda: _copied(hosts, job_id), what="its artifacts in the store")
    files = []
    for of_job in (job_id, undisturbed["id"]):
        files.append(tmp_path / f"{of_job}.h5")
        client.download_artifact(of_job, "model.weights.h5", files[-1])
    for name, array in weights_in(files[0]).items():
        np.testing.assert_array_equal(array, weights_in(files[1])[name])


def _copied(hosts: Hosts, job_id: str) -> bool:
    return "model.weights.h5" in [file["path"] for file in hosts.client.artifacts(job_id)]
