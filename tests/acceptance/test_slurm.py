"""Whole jobs on the nodes of a real Slurm, from a stack whose worker offers its partition as a pool."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import environment, mark_of, pids
from tests.acceptance.conftest import ENDLESS, ended, kinds, no_process_left, wait_for_epochs
from tests.acceptance.pools import POOL, stack_on
from tests.archives import chips
from tests.commands import hora_process
from tests.namespaces import run
from tests.slurm import Slurm, slurm
from tests.waiting import until

Json = dict[str, Any]
DIGITS = {
    "dataset": "digits", "model": "mlp", "batch_size": 64, "learning_rate": 0.001, "device": "cpu", "epochs": 3,
    "early_stopping": None, "pool": POOL,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes with two cores and two GPUs each. Each has a name, an address and a network of its own."""
    with slurm(gpus=2, networks=True) as cluster:
        yield cluster
    assert cluster.network is not None
    bridge = cluster.network.interface
    until(lambda: bridge not in psutil.net_if_addrs(), what="the end of the bridge")


@pytest.fixture(scope="module")
def login(cluster: Slurm, session_folder: Path) -> Iterator[Stack]:
    """A stack on the login node of the cluster, with no slots of its own. Each of its jobs takes all GPUs of a node."""
    settings = {"HORA_SLURM_ARGS": "--gres=gpu:2", "HORA_STORE": f"file://{session_folder}/store-of-pool"}
    with stack_on(cluster, session_folder / "login", **settings) as stack:
        yield stack


@pytest.fixture(scope="module")
def user(login: Stack) -> Iterator[Service]:
    """A client of the stack."""
    with Service(login.url, login.token) as client:
        yield client


def sent_bytes(cluster: Slurm, node: str) -> int:
    """What a node has sent to others."""
    assert cluster.network is not None
    shown = json.loads(run(*cluster.network.inside(node), "ip", "--json", "--statistics", "link", "show", "eth0"))
    return int(shown[0]["stats64"]["tx"]["bytes"])


@pytest.mark.long("hosts")
def test_an_uploaded_dataset_trains_on_two_nodes(cluster: Slurm, login: Stack, user: Service, tmp_path: Path) -> None:
    for name, content in chips(20).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    added = hora_process(login.home, "dataset", "add", "chips", str(tmp_path), "--image-size", "32x32", "--wait")
    assert added.returncode == 0, added.stderr
    sent = {**DIGITS, "dataset": "chips", "model": "lenet5", "batch_size": 2, "gpus": 4, "placement": "pack"}
    before = {node: sent_bytes(cluster, node) for node in cluster.nodes}
    job_id = user.submit(sent)["id"]
    job = ended(user, job_id)
    assert (job["status"], job["end_reason"]) == ("succeeded", "completed"), job["error"]
    assert job["dataset"]["classes"] == ["cracked", "whole"]
    (attempt,) = user.attempts(job_id)
    assert [(share["host"], len(share["slots"])) for share in attempt["shares"]] == [("n1", 2), ("n2", 2)]
    assert attempt["queued_at"] <= attempt["handed_at"] <= attempt["created_at"]
    assert user.analysis(job_id)["ledger"]["waited_in_slurm_s"] > 0
    sampled = {(one["host"], one["rank"]) for one in user.utilization(job_id, metric="cpu_percent")["series"]}
    assert sampled == {("n1", 0), ("n1", 1), ("n2", 2), ("n2", 3)}
    assert kinds(user, job_id).count("epoch_ended") == 3
    gradients_bytes = job["progress"]["steps"] * job["summary"]["model_bytes"]
    assert all(sent_bytes(cluster, node) - sent > gradients_bytes for node, sent in before.items())
    no_process_left(user, job_id)
    until(cluster.are_idle, what="idle nodes")
    assert cluster.jobs()[f"hora-{job_id}-1"] == "COMPLETED"


def test_a_job_on_two_nodes_pauses_gives_way_to_slurm_and_is_cancelled(cluster: Slurm, user: Service) -> None:
    job_id = user.submit({**ENDLESS, "device": "cpu", "pool": POOL, "placement": "spread"})["id"]
    wait_for_epochs(user, job_id, epochs=1)
    (attempt,) = user.attempts(job_id)
    assert [share["host"] for share in attempt["shares"]] == ["n1", "n2"]
    until(
        lambda: "checkpoint_copied" in kinds(user, job_id), within_s=600, what="a checkpoint in the store"
    )  # politely
    assert_no_secret_on_the_nodes(job_id)
    user.pause(job_id)
    until(lambda: user.job(job_id)["status"] == "queued", what="the pause")
    until(cluster.are_idle, what="idle nodes")
    user.resume(job_id)
    wait_for_epochs(user, job_id, epochs=2, attempt=2)
    assert user.attempts(job_id)[-1]["resumed_step"] > 0
    cluster.run("scancel", "--signal=USR2", "--batch", f"--name=hora-{job_id}-2")  # as before its time limit
    wait_for_epochs(user, job_id, epochs=3, attempt=3)
    of_slurm, last = user.attempts(job_id)[-2:]
    assert (of_slurm["end_reason"], of_slurm["error"]) == ("preempted", "Slurm takes its nodes back")
    assert last["resumed_step"] > of_slurm["resumed_step"]
    assert user.job(job_id)["restarts"] == 0
    user.cancel(job_id)
    assert ended(user, job_id)["status"] == "cancelled"
    no_process_left(user, job_id)
    until(cluster.are_idle, what="idle nodes")
    until(lambda: user.host(POOL)["slots"] == [], what="free slots")


def assert_no_secret_on_the_nodes(job_id: str) -> None:
    """Look at every process that Slurm started, and at the ranks."""
    mark = f"HORA_ATTEMPT={mark_of(job_id, 1)}".encode()
    seen = 0
    for pid in pids():
        variables = environment(pid)
        if pid != os.getpid() and (mark in variables or any(one.startswith(b"SLURM_STEP_ID=") for one in variables)):
            seen += 1
            names = {one.partition(b"=")[0] for one in variables}
            assert not names & {b"HORA_DATABASE_URL", b"HORA_BROKER_URL", b"HORA_TOKEN", b"HORA_STORE_OPTIONS"}
    assert seen >= 6  # two members, horovodrun, two ranks, and what starts them
