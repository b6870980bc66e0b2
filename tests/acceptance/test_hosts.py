"""A job on two hosts, over ssh: it trains, it can be cancelled, and a death on the other host restarts it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.service import Service
from jobs.runtime.processes import environment, mark_of
from tests.acceptance.conftest import UNHURRIED, Json, points, submit_script, wait_for_epochs
from tests.acceptance.hosts import Hosts, reason_to_skip
from tests.waiting import slowdown, until

SHORT = {"dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2, "epochs": 3}
LONG_ENOUGH = SHORT | {"epochs": 30, "early_stopping": None}
SPREAD = {"placement": "spread"}  # each host has room for both ranks
# Rank 1 sends its numbers to rank 0 as `torch.distributed` would meet it. The barrier of each step is that socket.
MEETING = """
import os, socket, time
from hora import run

place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if run.rank == 0:
    with socket.create_server(place) as server:
        peer, _ = server.accept()
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
done = 0
if run.rank == 0 and run.latest_checkpoint() is not None:
    done = int((run.latest_checkpoint() / "step").read_text())
peer.sendall(b"%9d" % done)
done = max(done, int(peer.recv(9, socket.MSG_WAITALL)))
last = done + 30 if done else 10**6  # the first attempt goes on until it is paused
for step in range(done + 1, last + 1):
    time.sleep(0.1)
    peer.sendall(b"x")
    assert peer.recv(1) == b"x"
    run.report(step=step, mae=1 / step)
    stopping = run.should_stop()
    if stopping:
        with run.checkpoint(step) as folder:
            (folder / "step").write_text(str(step))
        break
(run.artifacts / f"of-rank-{run.rank}").write_text(socket.gethostname())
"""
PATIENT = {"HORA_LEASE_S": "150"}  # no lease runs out here, however busy the machine is
RANK_ENV = {"HORA_RANK_ENV": "NCCL_IB_HCA=mlx5_0,mlx5_1,NCCL_DEBUG_FILE=/tmp/a b"}
OPEN = {"HORA_CODE": "on", "HORA_SLOTS": "2"}
OF_AN_ATTEMPT = ("worker.member", "worker.supervisor", "worker.horovodrun", "sshd: ")


@pytest.fixture(scope="module")
def hosts(session_folder: Path) -> Iterator[Hosts]:
    """Two hosts with two slots each, which share nothing."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    with Hosts(session_folder / "hosts", ("ha", "hb"), PATIENT | RANK_ENV | OPEN) as hosts:
        yield hosts


def nothing_left(hosts: Hosts, job_id: str) -> None:
    """Wait until no host runs a process of the job or its supervision, and all slots are free."""
    within_s = 15 * slowdown()  # after their lease they would end by themselves
    marks = [mark_of(job_id, attempt["number"]) for attempt in hosts.client.attempts(job_id)]

    def left() -> list[str]:
        ranks = [f"{host.name}: rank {pid}" for host in hosts for mark in marks for pid in host.pids_with_mark(mark)]
        return ranks + [f"{host.name}: {part}" for host in hosts for part in OF_AN_ATTEMPT if host.running(part)]

    until(lambda: not left(), within_s=within_s, what=f"the end of {left()}")
    until(lambda: set(slot_states(hosts.client)) == {"free"}, within_s=within_s, what="free slots")


def slot_states(client: Service) -> list[str]:
    """The state of every slot."""
    return [slot["state"] for host in client.hosts() for slot in host["slots"]]


def shares(client: Service, job_id: str) -> list[list[str]]:
    """The hosts of each attempt."""
    return [[share["host"] for share in attempt["shares"]] for attempt in client.attempts(job_id)]


def test_a_job_on_two_hosts_trains_to_its_end(hosts: Hosts) -> None:
    client = hosts.client
    job = client.submit(SHORT | SPREAD)
    ended = client.wait(job["id"], timeout_s=240)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    (names,) = shares(client, job["id"])
    assert sorted(names) == ["ha", "hb"]

    started: dict[int, Json] = {
        event["data"]["rank"]: event["data"] for event in client.events(job["id"]) if event["kind"] == "rank_started"
    }
    assert [started[rank]["host"] for rank in (0, 1)] == names
    for rank, name in enumerate(names):
        lines = [line["text"] for line in client.logs(job["id"], rank=rank)["items"]]
        assert lines[0].startswith(f"rank {rank} of 2 started on {name}, pid {started[rank]['pid']}")
        assert lines[-1] == "leaving: completed"
    sampled = {(one["host"], one["rank"]) for one in client.utilization(job["id"])["series"] if one["x"]}
    assert sampled == set(zip(names, (0, 1), strict=True))
    steps = ended["progress"]["steps"]
    for rank in (0, 1):
        assert len(points(client, job["id"], "samples_per_s", axis="step", rank=rank)) == steps
    nothing_left(hosts, job["id"])


@pytest.mark.long("hosts")
def test_a_job_that_waits_for_the_network_is_advised_one_host(hosts: Hosts) -> None:
    """The last step of the articles: ranks on as few hosts as they fit on."""
    client = hosts.client
    apart = client.wait(client.submit(LONG_ENOUGH | SPREAD)["id"], timeout_s=240)
    (item,) = [item for item in client.advice(apart["id"]) if item["rule"] == "hosts"]
    assert item["change"] == {"placement": "single_host"}
    assert item["evidence"]["allreduce_share"] > 0.15
    together = client.wait(client.clone(apart["id"], item["change"])["id"], timeout_s=240)
    assert together["status"] == "succeeded"
    assert [len(names) for names in shares(client, together["id"])] == [1]
    assert "hosts" not in [item["rule"] for item in client.advice(together["id"])]


@pytest.mark.long("hosts")
def test_a_script_on_two_hosts_meets_is_paused_at_one_step_and_goes_on(hosts: Hosts) -> None:
    client = hosts.client
    job_id = submit_script(hosts.stack, MEETING, gpus=2, **SPREAD)

    def reporting() -> set[int]:
        return {series["rank"] for series in client.metrics(job_id, name="mae", axis="step")}

    until(lambda: {0, 1} <= reporting(), what="reports of both hosts")
    client.pause(job_id)
    until(lambda: client.job(job_id)["paused_at"] and client.attempts(job_id)[0]["end_reason"], what="the pause")
    client.resume(job_id)
    ended = client.wait(job_id, timeout_s=240)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    assert [attempt["end_reason"] for attempt in client.attempts(job_id)] == ["paused", "completed"]
    assert [sorted(names) for names in shares(client, job_id)] == [["ha", "hb"]] * 2
    steps = [sorted(points(client, job_id, "mae", axis="step", rank=rank)) for rank in (0, 1)]
    assert len(steps[0]) > 30
    assert steps == [list(range(1, len(steps[0]) + 1))] * 2
    nothing_left(hosts, job_id)


def test_a_killed_rank_and_member_restart_the_job_and_a_cancel_ends_it_on_both_hosts(hosts: Hosts) -> None:
    client = hosts.client
    job = client.submit(UNHURRIED | SPREAD)
    wait_for_epochs(client, job["id"], epochs=2)
    member_host = hosts[shares(client, job["id"])[0][1]]
    (rank,) = set(member_host.pids_with_mark(mark_of(job["id"], 1))) & set(member_host.running("-m trainer"))
    assert {b"NCCL_IB_HCA=mlx5_0,mlx5_1", b"NCCL_DEBUG_FILE=/tmp/a b"} <= environment(rank)
    os.kill(rank, signal.SIGKILL)
    until(lambda: client.job(job["id"])["attempt"] == 2, what="a second attempt")
    until(lambda: client.job(job["id"])["status"] == "running", what="the second attempt's ranks")
    member_host = hosts[shares(client, job["id"])[1][1]]
    (member,) = member_host.running("worker.member")
    os.kill(member, signal.SIGKILL)
    until(lambda: client.job(job["id"])["attempt"] == 3, what="a third attempt")
    until(lambda: client.job(job["id"])["status"] == "running", what="the third attempt's ranks")

    asked_at = time.monotonic()
    client.cancel(job["id"])
    assert client.wait(job["id"], timeout_s=240, period_s=0.1)["status"] == "cancelled"
    took_s = time.monotonic() - asked_at
    assert took_s < 10 * slowdown(), f"the cancel took {took_s:.1f} s"
    first, second, third = client.attempts(job["id"])
    ends = [one["end_reason"] for one in (first, second, third)]
    assert ends == ["rank_failed", "host_lost", "cancelled"]
    assert f"host {member_host.name}" in second["error"]
    nothing_left(hosts, job["id"])
