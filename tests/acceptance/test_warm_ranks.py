"""Ranks that are forked from a warm process: they are as those that start cold, and nothing depends on that process."""

import os
import signal
from typing import Any

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId, command_line, descendants, environment, pids, state_and_parent
from tests.acceptance.conftest import Json, points, rank_pids, supervisor_pids, wait_for_epochs
from tests.processes import as_the_kernel_sees_it, knows
from tests.stack_settings import SECRET
from tests.unhurried import MODEL
from tests.waiting import until

SPEC = {
    "dataset": "digits", "model": MODEL, "batch_size": 32, "learning_rate": 0.001, "gpus": 2, "epochs": 100,
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


def started(client: Service, number: int) -> tuple[Json, int, list[dict[str, Any]]]:
    """A job that trains, its supervisor, and what the kernel sees of its ranks."""
    job = client.submit(SPEC | {"name": f"run {number}"})
    wait_for_epochs(client, job["id"], epochs=1)
    (supervisor,) = supervisor_pids(client, job["id"])
    ranks = rank_pids(client, job["id"], 1)
    assert set(ranks.values()) <= set(descendants(supervisor))
    return job, supervisor, [as_the_kernel_sees_it(ranks[rank], job["id"]) for rank in (0, 1)]


def ended(client: Service, job: Json) -> Json:
    """The job at its end."""
    ended: Json = client.wait(job["id"], timeout_s=240)
    assert (ended["status"], ended["attempt"], ended["error"]) == ("succeeded", 1, None)
    return ended


def test_warm_ranks_know_no_secret_outlive_their_template_and_are_as_cold_ones(client: Service, stack: Stack) -> None:
    template = warm_template(client, stack)
    job, supervisor, warm_ranks = started(client, 1)
    assert state_and_parent(supervisor)[1] == template
    assert templates(stack) == [template], "the forks have names of their own"
    _no_secret_is_known(template, supervisor)
    os.kill(stack.pid_of("worker"), signal.SIGKILL)
    until(lambda: ProcessId.of(template) is None, what="the end of the template with its worker")
    reached = client.job(job["id"])["progress"]["epoch"]
    wait_for_epochs(client, job["id"], epochs=reached + 1)
    warm = ended(client, job)

    template = warm_template(client, stack)  # of the next worker
    os.kill(template, signal.SIGSTOP)  # it does not answer
    job, supervisor, cold_ranks = started(client, 2)
    assert state_and_parent(supervisor)[1] == stack.pid_of("worker")
    until(lambda: ProcessId.of(template) is None, what="the end of the template that hangs")
    cold = ended(client, job)

    for one, other in zip(warm_ranks, cold_ranks, strict=True):
        assert {name: (one[name], other[name]) for name in one if one[name] != other[name]} == {}
    for rank in (0, 1):
        losses = [points(client, job["id"], "loss", axis="step", rank=rank) for job in (warm, cold)]
        assert losses[0] == losses[1]
    differing = {"wall_s", "setup_s", "train_samples_per_s", "after_best_share"}
    summaries = [{k: v for k, v in job["summary"].items() if k not in differing} for job in (warm, cold)]
    assert summaries[0] == summaries[1]


def _no_secret_is_known(template: int, supervisor: int) -> None:
    try:
        assert knows(supervisor, SECRET), "it has the environment of the worker"
    except PermissionError:
        return  # this user may not read the memory of other processes
    assert not [pid for pid in (template, *descendants(supervisor)) if knows(pid, SECRET)]
