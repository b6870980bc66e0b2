"""Real stops: ranks that ignore a cancel, and a job that is stalled, cut off and paused in turn."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from math import ceil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt
from jobs.runtime.processes import ProcessId
from tests.acceptance.conftest import (
    ENDLESS,
    every_step_once,
    no_process_left,
    points,
    rank_pids,
    supervisor_pids,
    wait_for_epochs,
)
from tests.waiting import slowdown, until

# Rank 1 hangs in a call that holds the interpreter, so that it notices neither the stop file nor SIGTERM. Each rank
# starts a child that holds its output open, and another child without its mark and outside its session.
STUBBORN = """
import ctypes, os, subprocess
from pathlib import Path

def build(shape, classes):
    children = [subprocess.Popen(["sleep", "600"]), subprocess.Popen(["env", "-i", "setsid", "sleep", "600"])]
    pids = [os.getpid(), *(child.pid for child in children)]
    rank = os.environ["HOROVOD_RANK"]
    Path(os.environ["HORA_HOME"], "stubborn-" + rank).write_text(" ".join(map(str, pids)) + "\\n")
    ctypes.PyDLL(None).sleep(600 if rank == "1" else 0)
    from keras import Model, layers
    inputs = layers.Input(shape)
    return Model(inputs, layers.Dense(classes)(layers.Flatten()(inputs)))
"""
SHORTEST_STALL_S, LONGEST_STALL_S = 20, 360


@pytest.fixture(scope="module")
def hasty(session_folder: Path) -> Iterator[Stack]:
    """A stack with short leases. Its jobs may train a network whose rank 1 cannot be stopped gently."""
    sources = session_folder / "stubborn"
    sources.mkdir()
    (sources / "stubborn.py").write_text(STUBBORN)
    with pytest.MonkeyPatch.context() as environment:
        lease_s = min(11 * slowdown(), 60)  # a supervisor has to start within this time; at most the usual lease
        environment.setenv("HORA_LEASE_S", f"{lease_s:.1f}")
        environment.setenv("HORA_LEASE_RENEWAL_S", "0.5")
        environment.setenv("HORA_RESTART_BACKOFF_S", "0.1")
        environment.setenv("HORA_MODELS", "stubborn:build")
        environment.setenv("PYTHONPATH", str(sources), prepend=os.pathsep)
        with Stack(session_folder / "hasty", port=0, slots=2) as stack:
            yield stack


@pytest.fixture(scope="module")
def client(hasty: Stack) -> Iterator[Service]:
    with Service(hasty.url, hasty.token) as client:
        yield client


@pytest.fixture
def sessions(hasty: Stack) -> Iterator[Sessions]:
    engine = engine_for(hasty.database_url)
    yield sessions_for(engine)
    engine.dispose()


def test_a_cancel_ends_a_hanging_rank_and_the_child_processes_of_all_ranks(client: Service, hasty: Stack) -> None:
    job = client.submit({**ENDLESS, "model": "stubborn:build"})
    told = [hasty.home / f"stubborn-{rank}" for rank in (0, 1)]
    until(lambda: all(path.exists() and path.read_text().endswith("\n") for path in told))
    until(lambda: client.job(job["id"])["status"] == "running")  # its supervisor is up too
    processes = [ProcessId.of(int(pid)) for path in told for pid in path.read_text().split()]
    assert all(process and process.is_alive for process in processes)
    asked = time.monotonic()
    client.cancel(job["id"])
    ended = client.wait(job["id"], timeout_s=240, period_s=0.05)
    took_s = time.monotonic() - asked
    assert (ended["status"], ended["end_reason"]) == ("cancelled", "cancelled")
    assert [process for process in processes if process and process.is_alive] == []
    assert took_s < 10 * slowdown(), (
        f"the cancel took {took_s:.1f} s"
    )  # 2.5 s for the file, 1 s for SIGTERM, then SIGKILL
    no_process_left(client, job["id"])


def test_a_job_loses_no_step_through_a_stall_a_lost_lease_and_a_pause(
    client: Service, hasty: Stack, sessions: Sessions
) -> None:
    """Attempt 1: a rank stands still. Attempt 2: the supervisor is stopped past its lease. Attempt 3 is paused."""
    job_id, stall_s = _trains_with_a_stall_limit(client)
    os.kill(rank_pids(client, job_id, 1)[1], signal.SIGSTOP)
    until(lambda: len(client.attempts(job_id)) == 2, what="the end of the stall")

    _trains_on(client, job_id, attempt=2)
    _cut_off(client, sessions, job_id)

    _trains_on(client, job_id, attempt=3)
    client.pause(job_id)
    until(lambda: client.job(job_id)["status"] == "queued", what="the pause")
    assert client.cancel(job_id)["status"] == "cancelled"
    first, second, third = attempts = client.attempts(job_id)
    assert [one["end_reason"] for one in attempts] == ["stalled", "lease_expired", "paused"]
    assert first["error"] == f"no step from any rank for {stall_s} s; stopped by a signal: rank 1"
    assert 0 == first["resumed_step"] < second["resumed_step"] < third["resumed_step"]
    epochs = list(points(client, job_id, "val_loss"))
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch is missing or there twice"
    every_step_once(hasty, job_id, steps=client.job(job_id)["progress"]["step"])
    said = [line["text"] for line in client.logs(job_id, tail=1000)["items"] if line["attempt"] == 2]
    assert "error: leaving: lease_expired: nobody extended the lease of this rank" in said, (
        "what it left was not stored"
    )
    no_process_left(client, job_id)


def _trains_with_a_stall_limit(client: Service) -> tuple[str, int]:
    """A job that trains, and its stall limit, which is at least twice the time to the first step.

    The first step of every attempt has to come within the limit too.
    """
    stall_s = SHORTEST_STALL_S
    while stall_s < LONGEST_STALL_S:
        job_id = client.submit({**ENDLESS, "model": "lenet5", "stall_timeout_s": stall_s})["id"]
        until(lambda job_id=job_id: {"first_step", "attempt_ended"} & _times(client, job_id).keys(), what="a step")
        times = _times(client, job_id)
        stepped_at = times.get("first_step") or times["attempt_ended"]
        needed_s = 2 * (stepped_at - times["launched"]).total_seconds()
        if "first_step" in times and needed_s < stall_s:
            wait_for_epochs(client, job_id, epochs=3)
            return job_id, stall_s
        client.cancel(job_id)
        client.wait(job_id, timeout_s=240)
        stall_s = ceil(1.3 * needed_s)
    raise AssertionError(f"the ranks take longer than {LONGEST_STALL_S / 2.6:g} s to their first step")


def _times(client: Service, job_id: str) -> dict[str, datetime]:
    """When events of each kind first came."""
    return {event["kind"]: datetime.fromisoformat(event["at"]) for event in reversed(list(client.events(job_id)))}


def _trains_on(client: Service, job_id: str, *, attempt: int) -> None:
    """Wait until the attempt has made steps of its own."""

    def has_steps() -> bool:
        attempts = client.attempts(job_id)
        assert len(attempts) <= attempt, attempts
        resumed = attempts[-1]["resumed_step"] if len(attempts) == attempt else None
        return resumed is not None and client.job(job_id)["progress"]["step"] > resumed + 20

    until(has_steps, what=f"steps of attempt {attempt}")
    assert len(rank_pids(client, job_id, attempt)) == 2


def _cut_off(client: Service, sessions: Sessions, job_id: str) -> None:
    """Stop the supervisor: its ranks leave by themselves before anybody else may have the job."""
    ranks = [ProcessId.of(pid) for pid in rank_pids(client, job_id, 2).values()]
    os.kill(supervisor_pids(client, job_id)[1], signal.SIGSTOP)
    until(lambda: not any(rank and rank.is_alive for rank in ranks), what="the end of the ranks")
    attempt = select(Attempt).where(Attempt.job_id == job_id, Attempt.number == 2)
    with sessions() as session:
        second = session.scalars(attempt).one()
        assert session.scalar(select(func.now() < second.lease_expires_at)), "they outlived the lease"
        assert second.ended_at is None
    until(lambda: len(client.attempts(job_id)) == 3, what="another attempt")
