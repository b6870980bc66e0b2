"""Whole jobs on nodes of Slurm that have a name, an address and a network of their own: the ranks talk over these."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hora.service import Service
from tests.acceptance.conftest import ended, no_process_left
from tests.acceptance.pools import stack_on
from tests.acceptance.test_slurm import DIGITS
from tests.namespaces import Network, run
from tests.slurm import Slurm, slurm
from tests.waiting import until

pytestmark = pytest.mark.long("hosts")

SPREAD = {**DIGITS, "gpus": 2, "placement": "spread"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes."""
    with slurm(nodes=2, networks=True) as cluster:
        yield cluster
    assert cluster.network is not None
    bridge = cluster.network.interface
    until(lambda: bridge not in psutil.net_if_addrs(), what="the end of the bridge")


@pytest.fixture(scope="module")
def network(cluster: Slurm) -> Network:
    """That of its nodes."""
    assert cluster.network is not None
    return cluster.network


@pytest.fixture(scope="module")
def user(cluster: Slurm, session_folder: Path) -> Iterator[Service]:
    """A client of a stack on the login node of the cluster."""
    with stack_on(cluster, session_folder / "networks") as stack, Service(stack.url, stack.token) as user:
        yield user


def sent_bytes(network: Network, node: str) -> int:
    """What a node has sent to others."""
    shown = json.loads(run(*network.inside(node), "ip", "--json", "--statistics", "link", "show", "eth0"))
    return int(shown[0]["stats64"]["tx"]["bytes"])


def test_ranks_talk_over_the_addresses_of_their_nodes(network: Network, user: Service) -> None:
    before = {node: sent_bytes(network, node) for node in network.ips}
    job_id = user.submit(SPREAD)["id"]
    job = ended(user, job_id)
    assert (job["status"], job["end_reason"]) == ("succeeded", "completed"), job["error"]
    ranks = [event["data"] for event in user.events(job_id) if event["kind"] == "rank_started"]
    assert sorted((rank["host"], rank["rank"]) for rank in ranks) == [("n1", 0), ("n2", 1)]
    gradients_bytes = job["progress"]["steps"] * job["summary"]["model_bytes"]
    for node, bytes_before in before.items():
        assert sent_bytes(network, node) - bytes_before > gradients_bytes
    no_process_left(user, job_id)
