"""Hosts that share no disk, and a store: what a job saved survives the loss of its host for good.

The store is an S3 server behind a line that can be made slow, unreliable, full or dead.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hora.errors import Conflict
from hora.service import Service
from jobs.runtime.processes import mark_of
from tests.acceptance.conftest import UNHURRIED, Json, points, wait_for_epochs
from tests.acceptance.hosts import HUB_IP, Hosts, as_socket, reason_to_skip
from tests.archives import chips, write_files
from tests.commands import hora_process
from tests.s3 import S3Server, s3_server
from tests.store_faults import FaultyLink, faulty
from tests.waiting import slowdown, until

pytestmark = pytest.mark.timeout(2400)  # the limits below, and more

SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 8, "learning_rate": 0.001, "epochs": 40, "early_stopping": None,
}  # fmt: skip
ON_CHIPS = {
    "dataset": "chips", "model": "lenet5", "batch_size": 4, "learning_rate": 0.01, "epochs": 1, "early_stopping": None,
}  # fmt: skip
COUNTING = """
from pathlib import Path
from hora import run
print(sum(1 for _ in Path(run.dataset.train).rglob("*.png")), "pictures")
"""
STORE_PORT = 9000
COPIED_WITHIN_S = 800.0  # copies have the lowest priority of a host: a core that is used all the time leaves them 1 %


@dataclass(frozen=True)
class Site:
    """Two hosts with a slot each, which share a store and nothing else, and the line to that store."""

    hosts: Hosts
    link: FaultyLink

    @property
    def client(self) -> Service:
        return self.hosts.client


@pytest.fixture(scope="module")
def server(session_folder: Path) -> Iterator[S3Server]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with s3_server(session_folder / "s3") as server:
        yield server


@pytest.fixture
def site(short_folder: Path, server: S3Server) -> Iterator[Site]:
    with _site(short_folder, server, _times()) as site:
        yield site


@pytest.fixture
def patient_site(short_folder: Path, server: S3Server) -> Iterator[Site]:
    """A site for a test that loses no host: leases are as long as they are by default."""
    with _site(short_folder, server, {}) as site:
        yield site


@contextmanager
def _site(short_folder: Path, server: S3Server, times: Mapping[str, str]) -> Iterator[Site]:
    with ExitStack() as opened:
        link = opened.enter_context(faulty(server.endpoint))
        socket = short_folder / "s3.sock"
        opened.enter_context(as_socket(link.port, socket))
        url = f"{server.url}/{short_folder.name}"
        of_hosts = {
            "HORA_STORE": url,
            "HORA_STORE_OPTIONS": json.dumps(server.options_at(f"http://{HUB_IP}:{STORE_PORT}")),
        }
        api_options = json.dumps(server.options_at(link.endpoint))
        of_api = {"HORA_STORE": url, "HORA_STORE_OPTIONS": api_options, "HORA_CODE": "on"}
        sockets, names = {STORE_PORT: str(socket)}, ("ha", "hb")
        hosts = Hosts(short_folder / "hosts", names, {**times, **of_hosts}, api_environment=of_api, sockets=sockets)
        yield Site(opened.enter_context(hosts), link)


def _times() -> dict[str, str]:
    factor = min(slowdown(), 5)  # short leases that a busy machine can still keep
    return {
        "HORA_LEASE_S": f"{10 * factor:.1f}", "HORA_HOST_TIMEOUT_S": f"{6 * factor:.1f}",
        "HORA_LEASE_RENEWAL_S": "1", "HORA_HEARTBEAT_PERIOD_S": "1", "HORA_CODE": "on",
    }  # fmt: skip


def test_a_job_goes_on_elsewhere_when_its_host_is_lost_for_good(site: Site, tmp_path: Path) -> None:
    client = site.client
    undisturbed: Json = client.wait(client.submit(SPEC)["id"], timeout_s=240)
    assert undisturbed["status"] == "succeeded"
    until_copied(lambda: "model.weights.h5" in artifacts_of(client, undisturbed["id"]), "artifacts in the store")
    job_id = client.submit(SPEC)["id"]
    wait_for_epochs(client, job_id, epochs=2)
    lost_host = client.attempts(job_id)[0]["host"]
    for pid in site.hosts[lost_host].pids_with_mark(mark_of(job_id, 1)):
        os.kill(pid, signal.SIGSTOP)  # it must not end before it is lost, however late the copy is
    until_copied(lambda: copied_steps(client, job_id), "a checkpoint in the store")
    site.hosts[lost_host].lose()
    job = client.wait(job_id, timeout_s=240)
    first, second = client.attempts(job_id)
    assert (job["status"], first["end_reason"]) == ("succeeded", "host_lost")
    assert second["host"] != lost_host
    assert second["resumed_step"] in copied_steps(client, job_id)
    assert points(client, job_id, "loss") == points(client, undisturbed["id"], "loss")

    until_copied(lambda: "model.weights.h5" in artifacts_of(client, job_id), "its artifacts in the store")
    files = [tmp_path / "moved.h5", tmp_path / "undisturbed.h5"]
    for path, id_ in zip(files, (job_id, undisturbed["id"]), strict=True):
        client.download_artifact(id_, "model.weights.h5", path)
    moved, straight = map(weights_in, files)
    assert moved.keys() == straight.keys()
    for name, array in moved.items():
        np.testing.assert_array_equal(array, straight[name])

    # The host that is left starts a job from the weights of one that ran on the lost host.
    assert client.attempts(undisturbed["id"])[0]["host"] == lost_host
    source = f"job:{undisturbed['id']}"
    fine = client.submit(SPEC | {"model": {"name": "mlp", "weights": source}, "epochs": 1})["id"]
    assert client.wait(fine, timeout_s=240)["status"] == "succeeded"
    assert any(f"starting from the weights of {source}" in line["text"] for line in client.log_lines(fine))


@pytest.mark.long("hosts")
def test_what_people_send_reaches_hosts_that_share_no_disk(site: Site, tmp_path: Path) -> None:
    """A dataset and a script come to the store while it fails now and then. Later a host is lost with its disk."""
    client, home = site.client, site.hosts.stack.home
    data = tmp_path / "chips"
    write_files(data, chips(20))
    site.link.fail(1 / 3, seed=3)
    added = hora_process(home, "dataset", "add", "chips", str(data), "--image-size", "32x32", "--wait")
    assert added.returncode == 0, added.stderr
    site.link.normal()
    job_id = client.submit(ON_CHIPS | {"gpus": 2})["id"]
    assert client.wait(job_id, timeout_s=240)["status"] == "succeeded", client.logs(job_id)
    assert all((host.folder / "datasets" / "chips" / "1").is_dir() for host in site.hosts)
    assert not (home / "datasets").exists()
    site.hosts["ha"].lose()
    code = tmp_path / "code"
    code.mkdir()
    (code / "count.py").write_text(COUNTING)
    ran = hora_process(home, "run", "--folder", str(code), "--dataset", "chips@1", "--", "python", "count.py")
    assert (ran.returncode, "40 pictures" in ran.stdout) == (0, True), ran.stdout + ran.stderr


@pytest.mark.long("faults")
def test_training_goes_on_whatever_becomes_of_the_store(patient_site: Site) -> None:
    client, link = patient_site.client, patient_site.link
    job_id = client.submit(UNHURRIED | {"gpus": 1})["id"]
    wait_for_epochs(client, job_id, epochs=1)
    until_copied(lambda: copied_steps(client, job_id), "a checkpoint in the store")
    for fault in (
        lambda: link.slow(50_000), lambda: link.fail(1 / 3, seed=7), link.full, link.cut,
    ):  # fmt: skip
        fault()
        wait_for_epochs(client, job_id, epochs=client.job(job_id)["progress"]["epoch"] + 12)
    link.normal()
    client.cancel(job_id)
    job = client.wait(job_id, timeout_s=240)
    assert [attempt["end_reason"] for attempt in client.attempts(job_id)] == ["cancelled"]
    last_saved = [event["data"]["step"] for event in client.events(job_id) if event["kind"] == "checkpoint_saved"][-1]
    until_copied(lambda: last_saved in copied_steps(client, job_id), "the last checkpoint of a cancelled job")
    assert job["status"] == "cancelled"


def until_copied(condition: Callable[[], Any], what: str) -> None:
    until(condition, what=what, within_s=COPIED_WITHIN_S)


def copied_steps(client: Service, job_id: str) -> list[int]:
    return [event["data"]["step"] for event in client.events(job_id) if event["kind"] == "checkpoint_copied"]


def artifacts_of(client: Service, job_id: str) -> list[str]:
    try:
        return [file["path"] for file in client.artifacts(job_id)]
    except Conflict:  # their copies are not in the store yet
        return []


def weights_in(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file of weights."""
    arrays: dict[str, np.ndarray] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(add)
    return arrays
