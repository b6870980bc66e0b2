"""Real stops: ranks that ignore a cancel, and a job that is stalled, cut off and paused in turn."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from math import ceil

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
from tests.stack_settings import STUBBORN
from tests.waiting import slowdown, until

SHORTEST_STALL_S, LONGEST_STALL_S = 20, 360


@pytest.fixture
def sessions(stack: Stack) -> Iterator[Sessions]:
    engine = engine_for(stack.database_url)
    yield sessions_for(engine)
    engine.dispose()


def test_a_cancel_ends_a_hanging_rank_and_the_child_processes_of_all_ranks(client: Service, stack: Stack) -> None:
    job = client.submit({**ENDLESS, "model": STUBBORN})
    told = [stack.home / f"stubborn-{rank}" for rank in (0, 1)]
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
    client: Service, stack: Stack, sessions: Sessions
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
    every_step_once(stack, job_id, steps=client.job(job_id)["progress"]["step"])
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
