"""Failures while a job trains: a rank, its supervisor, the worker, the broker or the database dies. And cancels."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import (
    UNHURRIED,
    every_step_once,
    kinds,
    no_process_left,
    points,
    rank_pids,
    supervisor_pids,
    wait_for_epochs,
)
from tests.waiting import slowdown, until

OUTLASTS_KILLS = 200  # epochs: about a minute, in which a busy machine too starts three parts again


def test_cancel_reaches_a_job_that_is_still_starting(client: Service) -> None:
    job = client.submit(UNHURRIED)
    until(lambda: client.job(job["id"])["status"] != "queued")
    client.cancel(job["id"])
    assert client.wait(job["id"], timeout_s=30 * slowdown())["status"] == "cancelled"
    no_process_left(client, job["id"])


def test_a_job_resumes_after_an_urgent_job_a_killed_rank_and_a_killed_supervisor_and_can_be_cancelled(
    client: Service,
) -> None:
    patient = client.submit(UNHURRIED)
    wait_for_epochs(client, patient["id"], epochs=5)
    urgent = client.submit({**UNHURRIED, "gpus": 1, "epochs": 2, "priority": 90})
    until(lambda: client.job(urgent["id"])["status"] == "running", what="the urgent job")
    stopped_at = client.job(patient["id"])["progress"]["step"]
    assert client.wait(urgent["id"], timeout_s=240)["status"] == "succeeded"

    def gone_on() -> bool:
        newest = client.attempts(patient["id"])[-1]
        return newest["number"] == 2 and newest["resumed_step"] is not None

    until(gone_on, what="a second attempt that trains")
    first, second = client.attempts(patient["id"])
    assert (first["end_reason"], first["preempted_for"]) == ("preempted", f"job {urgent['id']}")
    assert second["resumed_step"] == stopped_at > 0
    assert client.job(patient["id"])["restarts"] == 0

    wait_for_epochs(client, patient["id"], epochs=10, attempt=2)
    os.kill(rank_pids(client, patient["id"], 2)[1], signal.SIGKILL)
    wait_for_epochs(client, patient["id"], epochs=20, attempt=3)
    os.kill(supervisor_pids(client, patient["id"])[2], signal.SIGKILL)
    wait_for_epochs(client, patient["id"], epochs=21, attempt=4)
    *_, third, fourth = attempts = client.attempts(patient["id"])
    assert [one["end_reason"] for one in attempts] == ["preempted", "rank_failed", "lease_expired", None]
    epoch = client.job(patient["id"])["plan"]["steps_per_epoch"]
    assert third["resumed_step"] >= 10 * epoch, "it began anew"
    assert fourth["resumed_step"] >= 20 * epoch, "it began anew"

    asked = time.monotonic()
    assert client.cancel(patient["id"])["cancel_requested_at"] is not None
    ended = client.wait(patient["id"], timeout_s=240, period_s=0.05)
    took_s = time.monotonic() - asked
    assert (ended["status"], ended["end_reason"]) == ("cancelled", "cancelled")
    assert took_s < 5 * slowdown(), f"the cancel took {took_s:.1f} s"
    no_process_left(client, patient["id"])
    assert kinds(client, patient["id"])[-2:] == ["attempt_ended", "ended"]
    epochs = list(points(client, patient["id"], "val_loss"))
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch is missing or there twice"


def test_killed_parts_of_the_stack_do_not_disturb_the_run(client: Service, stack: Stack) -> None:
    job = client.submit({**UNHURRIED, "epochs": OUTLASTS_KILLS})
    wait_for_epochs(client, job["id"], epochs=5)
    for part in ("worker", "broker", "database"):
        pid = stack.pid_of(part)
        with _not_started_again(stack):
            os.kill(pid, signal.SIGKILL)
            if part == "database":
                answer = until(lambda: _problem_of(stack, job["id"]), what="an answer without the database")
                assert answer == (503, "application/problem+json")
        until(lambda part=part, pid=pid: stack.pid_of(part) != pid, what=f"a new {part}")
        until(client.is_ready, what="the stack's recovery")
        epoch = client.job(job["id"])["progress"]["epoch"]
        wait_for_epochs(client, job["id"], epochs=epoch + 2)
    ended = client.wait(job["id"], timeout_s=600)

    assert (ended["status"], ended["attempt"]) == ("succeeded", 1)
    assert list(points(client, job["id"], "val_loss")) == list(range(1, OUTLASTS_KILLS + 1))
    every_step_once(stack, job["id"], steps=ended["progress"]["step"])
    no_process_left(client, job["id"])


@contextmanager
def _not_started_again(stack: Stack) -> Iterator[None]:
    """A part that dies stays down inside the block: the keeper, which would start it again, is stopped."""
    keeper = stack.state.keeper
    assert keeper is not None
    keeper.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        keeper.signal(signal.SIGCONT)


def _problem_of(stack: Stack, job_id: str) -> tuple[int, str | None] | None:
    """The status and content type of the api's answer if it is an error; else None."""
    asked = Request(f"{stack.url}/v1/jobs/{job_id}", headers={"Authorization": f"Bearer {stack.token}"})
    try:
        with urlopen(asked, timeout=120):
            return None
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"]
