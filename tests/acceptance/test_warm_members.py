"""A job on two hosts whose ranks are all forked from warm processes: those of the host that does not lead it, too."""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.runtime.processes import ProcessId, command_line, mark_of, state_and_parent
from tests.acceptance.conftest import Json, points, wait_for_epochs
from tests.acceptance.hosts import Host, Hosts, reason_to_skip
from tests.processes import as_the_kernel_sees_it, knows
from tests.waiting import until

pytestmark = pytest.mark.long("hosts")

SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2, "epochs": 40,
    "early_stopping": None, "checkpoint": {"every_epochs": 1000},
}  # fmt: skip
SECRET = secrets.token_hex(16)
PARENT, TEMPLATE = "worker.nursery.parent", "worker.nursery.template"


@pytest.fixture(scope="module")
def hosts(session_folder: Path) -> Iterator[Hosts]:
    """Two hosts with a slot and a template each."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    of_hosts = {"HORA_LEASE_S": "150", "HORA_SECRET_OF_THE_WORKER": SECRET}
    with Hosts(session_folder / "warm-hosts", ("ha", "hb"), of_hosts) as hosts:
        until(lambda: all(host["info"].get("warm_ranks_bytes") for host in hosts.client.hosts()), what="warm ranks")
        yield hosts


def training(hosts: Hosts, **fields: Any) -> tuple[Json, Host, int]:
    """A job that trains, its host that does not lead, and the rank there."""
    job = hosts.client.submit(SPEC | fields)
    wait_for_epochs(hosts.client, job["id"], epochs=1)
    _, member = [share["host"] for share in hosts.client.attempts(job["id"])[0]["shares"]]
    host = hosts[member]
    (rank,) = set(host.pids_with_mark(mark_of(job["id"], 1))) & set(host.running("-m trainer"))
    return job, host, rank


def is_warm(rank: int) -> bool:
    return PARENT.encode() in command_line(state_and_parent(rank)[1])


def test_a_warm_rank_of_the_other_host_is_and_does_what_a_cold_one_does(hosts: Hosts) -> None:
    client, ended, seen, places = hosts.client, [], [], []
    sockets = [host.folder / "run" / f"ranks-{host.name}" for host in hosts]
    for starts_warm in (True, False):
        if not starts_warm:
            for path in sockets:
                path.rename(path.with_name(f"{path.name}.away"))
        job, member, rank = training(hosts, name=f"warm: {starts_warm}")
        assert is_warm(rank) == starts_warm
        places.append(member.name)
        seen.append(as_the_kernel_sees_it(rank, job["id"]))
        ended.append(client.wait(job["id"], timeout_s=240))
        assert (ended[-1]["status"], ended[-1]["error"]) == ("succeeded", None)
        assert not member.pids_with_mark(mark_of(job["id"], 1))
    for path in sockets:
        path.with_name(f"{path.name}.away").rename(path)
    assert places[0] == places[1]
    for of_rank in seen:  # the ports of two connections differ, and the program that a shell started last
        of_rank["environment"] = [item for item in of_rank["environment"] if not item.startswith(("SSH_", "_="))]
    warm, cold = seen
    assert {name: (warm[name], cold[name]) for name in warm if warm[name] != cold[name]} == {}
    for rank in (0, 1):
        losses = [points(client, job["id"], "loss", axis="step", rank=rank) for job in ended]
        assert losses[0] == losses[1]
    differing = {"wall_s", "setup_s", "train_samples_per_s", "after_best_share"}
    summaries = [{name: value for name, value in job["summary"].items() if name not in differing} for job in ended]
    assert summaries[0] == summaries[1]


def test_a_warm_rank_outlives_the_worker_of_its_host_without_its_secrets(hosts: Hosts) -> None:
    job, member, rank = training(hosts, epochs=100_000)
    assert is_warm(rank)
    (template,), workers = member.running(TEMPLATE), member.running("-m worker")
    try:
        assert any(knows(pid, SECRET) for pid in workers)
    except PermissionError:
        pytest.skip("this user may not read the memory of other processes")
    assert not [pid for pid in (template, state_and_parent(rank)[1], rank) if knows(pid, SECRET)]

    for pid in workers:
        if command_line(pid)[-3:-1] == [b"-m", b"worker"]:
            os.kill(pid, signal.SIGKILL)
    until(lambda: ProcessId.of(template) is None, what="the end of the template")
    reached = hosts.client.job(job["id"])["progress"]["epoch"]
    wait_for_epochs(hosts.client, job["id"], epochs=reached + 1)
    assert hosts.client.job(job["id"])["attempt"] == 1
    hosts.client.cancel(job["id"])
    until(lambda: hosts.client.job(job["id"])["ended_at"], what="the end of the job")
    assert not member.pids_with_mark(mark_of(job["id"], 1))
