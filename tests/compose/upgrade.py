"""Upgrades a stack in containers while a job trains, as docs/operations.md says. Used by `python -m tests.compose`."""

import time
from collections.abc import Callable
from typing import Any

from hora.service import Json
from jobs.db.tables import SCHEMA
from tests.chaos.verdict import broken_curve
from tests.compose.checks import check_download, check_job, check_upload
from tests.compose.stack import WORKERS, ContainerStack
from tests.upgrade.versions import NEW, Version
from tests.waiting import until

# Its workers must stop before it ends, and `up` takes some time even if there is nothing to build. It saves only when
# it is told to.
_EPOCHS = 300
_LONG: dict[str, Any] = {
    "name": "long", "dataset": "digits", "model": "lenet5", "batch_size": 8, "learning_rate": 0.001, "gpus": WORKERS,
    "epochs": _EPOCHS, "early_stopping": None, "checkpoint": {"every_epochs": 10_000},
}  # fmt: skip
_END_LIMIT_S = 1800.0


def upgrade(stack: ContainerStack, old: Version, say: Callable[[str], None]) -> None:
    """Start the old version, let it train, and replace it by this version. Raises `AssertionError`."""
    stack.build(NEW)  # now, because the job must not end while images are built
    stack.up(old)
    old_dataset = check_upload(stack)
    old_id = check_job(stack, old_dataset)
    long_id = stack.api.submit(_LONG)["id"]
    until(lambda: _progress(stack, long_id)["epoch"] > 2, what="progress of the long job")
    step = _progress(stack, long_id)["step"]
    say(f"job {long_id} trains on {old.name}, with schema {stack.schema()}, and is at step {step}")

    begun = time.monotonic()
    stack.up(NEW)
    say(f"this version is up after {time.monotonic() - begun:.0f} s, with schema {stack.schema()}")
    assert stack.schema() == SCHEMA, f"the schema is not {SCHEMA}"
    assert not stack.outdated_services(), f"not replaced: {stack.outdated_services()}"
    _forget_lost_hosts(stack)
    check_download(stack, old_id)
    long_job = stack.api.wait(long_id, timeout_s=_END_LIMIT_S)
    say(f"job {long_id}: {_check_long_job(stack, long_job, step)}")
    new_id = check_job(stack, old_dataset, weights=f"job:{old_id}")
    listed = [job["id"] for job in stack.api.jobs(sort="created_at")]
    assert listed == [old_id, long_id, new_id], f"these jobs are listed: {listed}"


def _forget_lost_hosts(stack: ContainerStack) -> None:
    """Do so as an operator does. Each container of a worker is a new host, and older workers did not leave the list."""
    for host in stack.api.hosts():
        if not host["alive"]:
            stack.api.forget_host(host["name"])


def _progress(stack: ContainerStack, job_id: str) -> Json:
    job = stack.api.job(job_id)
    assert job["ended_at"] is None, job
    return dict(job["progress"])


def _check_long_job(stack: ContainerStack, job: Json, step: int) -> str:
    """It saved when its workers stopped, and this version continued from there to its end. Returns its story.

    `step` is one that it had reached before.
    """
    attempts, curve = stack.api.attempts(job["id"]), stack.api.metrics(job["id"], name="val_loss", axis="epoch")
    story = [f"{attempt['end_reason']} from step {attempt['resumed_step']}" for attempt in attempts]
    assert job["status"] == "succeeded", f"the job is {job['status']}: {job['error']}; {story}"
    assert len(attempts) == 2, story
    assert attempts[1]["resumed_step"] >= step, f"it was at step {step}, then: {story}"
    broken = broken_curve("long", _EPOCHS, curve)
    assert not broken, broken
    return ", then ".join(story)
