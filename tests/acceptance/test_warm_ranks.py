"""Ranks that are forked from a warm process: they are as those that start cold, and nothing depends on that process."""

import os
import signal
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId, command_line, descendants, environment, pids, state_and_parent
from tests.acceptance.conftest import Json, points, rank_pids, supervisor_pids, wait_for_epochs
from tests.processes import as_the_kernel_sees_it, knows
from tests.stack_settings import SECRET
from tests.waiting import until

SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2, "epochs": 40,
    "early_stopping": None, "checkpoint": {"every_epochs": 1000},  # no file is open for a moment
}  # fmt: skip
TEMPLATE = b"worker.nursery.template"


def templates(stack: Stack) -> list[int]:
    """The templates of the stack's worker, also those that outlived it."""
    home = f"HORA_HOME={stack.home}".encode()
    return [pid for pid in pids() if TEMPLATE in command_line(pid) and home in environment(pid)]


def warm_template(client: Service, stack: Stack) -> int:
    """The template, once attempts are forked from it: the host says so."""
    until(lambda: client.hosts()[0]["info"].get("warm_ranks_bytes"), what="warm ranks")
    (pid,) = templates(stack)
    return pid


def trained(client: Service, number: int) -> tuple[Json, int, list[dict[str, Any]]]:
    """A job that ran to its end, its supervisor's parent, and what the kernel saw of its ranks in between."""
    job = client.submit(SPEC | {"name": f"run {number}"})
    wait_for_epochs(client, job["id"], epochs=1)
    (supervisor,) = supervisor_pids(client, job["id"])
    parent, ranks = state_and_parent(supervisor)[1], rank_pids(client, job["id"], 1)
    assert set(ranks.values()) <= set(descendants(supervisor))
    seen = [as_the_kernel_sees_it(ranks[rank], job["id"]) for rank in (0, 1)]
    ended: Json = client.wait(job["id"], timeout_s=240)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    return ended, parent, seen


def test_no_secret_of_the_worker_is_in_the_memory_of_a_rank(client: Service, stack: Stack) -> None:
    template = warm_template(client, stack)
    job = client.submit(SPEC | {"epochs": 100_000})
    wait_for_epochs(client, job["id"], epochs=1)
    (supervisor,) = supervisor_pids(client, job["id"])
    assert state_and_parent(supervisor)[1] == template
    try:
        assert knows(supervisor, SECRET), "it has the environment of the worker"
    except PermissionError:
        pytest.skip("this user may not read the memory of other processes")
    below = descendants(supervisor)
    assert set(rank_pids(client, job["id"], 1).values()) <= set(below)
    assert not [pid for pid in (template, *below) if knows(pid, SECRET)]
    client.cancel(job["id"])
    until(lambda: client.job(job["id"])["ended_at"], what="the end of the job")


def test_a_warm_rank_is_and_does_what_a_cold_one_does(client: Service, stack: Stack) -> None:
    template = warm_template(client, stack)
    warm, parent, warm_ranks = trained(client, 1)
    assert parent == template
    assert templates(stack) == [template], "the forks have names of their own"

    os.kill(template, signal.SIGSTOP)  # it does not answer
    cold, parent, cold_ranks = trained(client, 2)
    assert parent == stack.pid_of("worker")
    until(lambda: ProcessId.of(template) is None, what="the end of the template that hangs")

    for one, other in zip(warm_ranks, cold_ranks, strict=True):
        assert {name: (one[name], other[name]) for name in one if one[name] != other[name]} == {}
    for rank in (0, 1):
        losses = [points(client, job["id"], "loss", axis="step", rank=rank) for job in (warm, cold)]
        assert losses[0] == losses[1]
    differing = {"wall_s", "setup_s", "train_samples_per_s", "after_best_share"}
    summaries = [{k: v for k, v in job["summary"].items() if k not in differing} for job in (warm, cold)]
    assert summaries[0] == summaries[1]


def test_the_template_ends_with_its_worker_and_its_forks_go_on(client: Service, stack: Stack) -> None:
    template = warm_template(client, stack)
    job = client.submit(SPEC | {"epochs": 100_000})
    wait_for_epochs(client, job["id"], epochs=1)
    os.kill(stack.pid_of("worker"), signal.SIGKILL)
    until(lambda: ProcessId.of(template) is None, what="the end of the template")
    reached = client.job(job["id"])["progress"]["epoch"]
    wait_for_epochs(client, job["id"], epochs=reached + 1)
    assert client.job(job["id"])["attempt"] == 1
    client.cancel(job["id"])
    until(lambda: client.job(job["id"])["ended_at"], what="the end of the job")
