"""Ranks that are forked from a warm process: they are as those that start cold, and nothing depends on that process."""

import os
import re
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId, command_line, descendants, environment, pids, state_and_parent
from tests.acceptance.conftest import Json, points, rank_pids, supervisor_pids, wait_for_epochs
from tests.waiting import until

SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2, "epochs": 40,
    "early_stopping": None, "checkpoint": {"every_epochs": 1000},  # no file is open for a moment
}  # fmt: skip
TEMPLATE = b"worker.nursery.template"
SECRET = secrets.token_hex(16)


@pytest.fixture(scope="module")
def home(session_folder: Path) -> Path:
    return session_folder / "warm"


@pytest.fixture(scope="module")
def stack(home: Path) -> Iterator[Stack]:
    """A stack of its own: its template is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORA_SECRET_OF_THE_WORKER", SECRET)
        with Stack(home, port=0, slots=2) as stack:
            yield stack


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Service]:
    with Service(stack.url, stack.token) as client:
        yield client


def templates(stack: Stack) -> list[int]:
    """The templates of the stack's worker, also those that outlived it."""
    home = f"HORA_HOME={stack.home}".encode()
    return [pid for pid in pids() if TEMPLATE in command_line(pid) and home in environment(pid)]


def warm_template(client: Service, stack: Stack) -> int:
    """The template, once attempts are forked from it: the host says so."""
    until(lambda: client.hosts()[0]["info"].get("warm_ranks_bytes"), what="warm ranks")
    (pid,) = templates(stack)
    return pid


def lasting_files(descriptors: Path) -> set[tuple[str, str]]:
    """The open files of a process, by descriptor, without those that it opens for a moment, such as its lease."""
    looks = []
    for _ in range(10):
        look = set()
        for entry in descriptors.iterdir():
            with suppress(FileNotFoundError):
                look.add((entry.name, os.readlink(entry)))
        looks.append(look)
        time.sleep(0.02)
    return set.intersection(*looks)


def as_the_kernel_sees_it(pid: int, job_id: str) -> dict[str, Any]:
    """What a process has beside its memory, without what differs from attempt to attempt."""

    def general(text: str) -> str:
        text = re.sub(r"HOROVOD_GLOO_RENDEZVOUS_PORT=\d+", "HOROVOD_GLOO_RENDEZVOUS_PORT=", text)
        return re.sub(r":\[\d+\]", "", text.replace(job_id, "JOB"))

    process = Path("/proc", str(pid))
    fields = ("Umask", "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapPrm", "Groups", "NoNewPrivs", "Seccomp", "Uid")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    return {
        "command": [general(os.fsdecode(word)) for word in command_line(pid)],
        "environment": sorted(general(os.fsdecode(item)) for item in environment(pid) if item),
        "folder": general(os.readlink(process / "cwd")),
        "program": os.readlink(process / "exe"),
        "limits": (process / "limits").read_text(),
        "files": sorted(general(target) for _, target in lasting_files(process / "fd")),
        "nice": (process / "stat").read_text().rpartition(")")[2].split()[16],
        **{name: status[name] for name in fields},
    }


def knows_the_secret(pid: int) -> bool:
    """Whether the secret is anywhere in the memory of a process."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            with suppress(OSError, OverflowError):  # the kernel's own pages, or what has just been freed
                if SECRET.encode() in os.pread(memory.fileno(), end - start, start):
                    return True
    return False


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
        assert knows_the_secret(supervisor), "it has the environment of the worker"
    except PermissionError:
        pytest.skip("this user may not read the memory of other processes")
    below = descendants(supervisor)
    assert set(rank_pids(client, job["id"], 1).values()) <= set(below)
    assert not [pid for pid in (template, *below) if knows_the_secret(pid)]
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
