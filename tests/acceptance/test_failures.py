"""Failures while a job trains: a rank, its supervisor, the worker, the broker or the database dies. And cancels."""

import os
import signal
import time

import psycopg

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId
from tests.acceptance.conftest import (
    ENDLESS,
    UNHURRIED,
    every_step_once,
    kinds,
    no_process_left,
    points,
    rank_pids,
    supervisor_pids,
    wait_for_epochs,
)
from tests.stack_settings import STUBBORN
from tests.waiting import slowdown, until

OUTLASTS_KILLS = 200  # epochs: about a minute, in which a busy machine too starts three parts again


def test_a_cancel_ends_a_hanging_rank_and_the_child_processes_of_all_ranks(client: Service, stack: Stack) -> None:
    job = client.submit({**ENDLESS, "model": STUBBORN})
    told = [stack.home / f"stubborn-{rank}" for rank in (0, 1)]
    until(lambda: all(path.exists() and path.read_text().endswith("\n") for path in told))
    until(lambda: client.job(job["id"])["status"] == "running")  # its supervisor is up too
    processes = [ProcessId.of(int(pid)) for path in told for pid in path.read_text().split()]
    assert all(process and process.is_alive for process in processes)
    # 2.5 s for the file, 1 s for SIGTERM, then SIGKILL
    _cancelled(client, job["id"], within_s=10)
    assert [process for process in processes if process and process.is_alive] == []


def _cancelled(client: Service, job_id: str, *, within_s: float) -> None:
    """Cancel a job that trains. It ends soon, and no process of it is left."""
    asked = time.monotonic()
    assert client.cancel(job_id)["cancel_requested_at"] is not None
    ended = client.wait(job_id, timeout_s=240, period_s=0.05)
    took_s = time.monotonic() - asked
    assert (ended["status"], ended["end_reason"]) == ("cancelled", "cancelled")
    assert took_s < within_s * slowdown(), f"the cancel took {took_s:.1f} s"
    no_process_left(client, job_id)


def test_a_job_resumes_after_an_urgent_job_a_killed_rank_a_killed_and_a_stopped_supervisor_and_can_be_cancelled(
    client: Service, stack: Stack
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
    _cut_off(client, stack, patient["id"])
    wait_for_epochs(client, patient["id"], epochs=22, attempt=5)
    *_, third, fourth, _ = attempts = client.attempts(patient["id"])
    assert [one["end_reason"] for one in attempts] == ["preempted", "rank_failed", *["lease_expired"] * 2, None]
    epoch = client.job(patient["id"])["plan"]["steps_per_epoch"]
    assert third["resumed_step"] >= 10 * epoch, "it began anew"
    assert fourth["resumed_step"] >= 20 * epoch, "it began anew"
    said = [line["text"] for line in client.logs(patient["id"], tail=1000)["items"] if line["attempt"] == 4]
    assert "error: leaving: lease_expired: nobody extended the lease of this rank" in said, "it was not stored"

    _cancelled(client, patient["id"], within_s=5)
    assert kinds(client, patient["id"])[-2:] == ["attempt_ended", "ended"]
    epochs = list(points(client, patient["id"], "val_loss"))
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch is missing or there twice"
    every_step_once(stack, patient["id"], steps=client.job(patient["id"])["progress"]["step"])


def _cut_off(client: Service, stack: Stack, job_id: str) -> None:
    """Stop the supervisor of the fourth attempt: its ranks leave by themselves before anybody else may have the job."""
    ranks = [ProcessId.of(pid) for pid in rank_pids(client, job_id, 4).values()]
    os.kill(supervisor_pids(client, job_id)[3], signal.SIGSTOP)
    until(lambda: not any(rank and rank.is_alive for rank in ranks), what="the end of the ranks")
    of_attempt = "SELECT lease_expires_at > now() AND ended_at IS NULL FROM attempts WHERE job_id = %s AND number = 4"
    with psycopg.connect(stack.database_url) as connection:
        assert connection.execute(of_attempt, [job_id]).fetchone() == (True,), "they outlived the lease"


def test_killed_parts_of_the_stack_do_not_disturb_the_run(client: Service, stack: Stack) -> None:
    job = client.submit({**UNHURRIED, "epochs": OUTLASTS_KILLS})
    wait_for_epochs(client, job["id"], epochs=5)
    for part in ("worker", "broker", "database"):
        pid = stack.pid_of(part)
        os.kill(pid, signal.SIGKILL)
        until(lambda part=part, pid=pid: stack.pid_of(part) != pid, what=f"a new {part}")
        until(client.is_ready, what="the stack's recovery")
        epoch = client.job(job["id"])["progress"]["epoch"]
        wait_for_epochs(client, job["id"], epochs=epoch + 2)
    ended = client.wait(job["id"], timeout_s=600)

    assert (ended["status"], ended["attempt"]) == ("succeeded", 1)
    assert list(points(client, job["id"], "val_loss")) == list(range(1, OUTLASTS_KILLS + 1))
    every_step_once(stack, job["id"], steps=ended["progress"]["step"])
    no_process_left(client, job["id"])
