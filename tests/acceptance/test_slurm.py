"""Whole jobs on the nodes of a real Slurm, from a stack whose worker offers its partition as a pool."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import environment, mark_of, pids
from tests.acceptance.conftest import ENDLESS, ended, kinds, no_process_left, wait_for_epochs
from tests.acceptance.pools import POOL, stack_on
from tests.archives import chips
from tests.commands import hora_process
from tests.slurm import Slurm, slurm
from tests.waiting import until

Json = dict[str, Any]
DIGITS = {
    "dataset": "digits", "model": "mlp", "batch_size": 64, "learning_rate": 0.001, "device": "cpu", "epochs": 3,
    "early_stopping": None, "pool": POOL,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes with two cores and two GPUs each."""
    with slurm(gpus=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def login(cluster: Slurm, session_folder: Path) -> Iterator[Stack]:
    """A stack on the login node of the cluster, with no slots of its own. Each of its jobs takes all GPUs of a node."""
    settings = {"HORA_SLURM_ARGS": "--gres=gpu:2", "HORA_STORE": f"file://{session_folder}/store-of-pool"}
    with stack_on(cluster, session_folder / "login", **settings) as stack:
        yield stack


@pytest.fixture(scope="module")
def user(login: Stack) -> Iterator[Service]:
    """A client of the stack."""
    with Service(login.url, login.token) as client:
        yield client


@pytest.mark.long("hosts")
def test_digits_train_on_all_gpus_of_two_nodes(cluster: Slurm, user: Service) -> None:
    job_id = user.submit({**DIGITS, "gpus": 4, "placement": "pack"})["id"]
    job = ended(user, job_id)
    assert (job["status"], job["end_reason"]) == ("succeeded", "completed"), job["error"]
    assert job["summary"]["val_accuracy"] > 0.5
    (attempt,) = user.attempts(job_id)
    assert [(share["host"], len(share["slots"])) for share in attempt["shares"]] == [
        ("n1", 2), ("n2", 2),
    ]  # fmt: skip
    ranks = [event["data"]["rank"] for event in user.events(job_id) if event["kind"] == "rank_started"]
    assert sorted(ranks) == list(range(4))
    assert kinds(user, job_id).count("epoch_ended") == 3
    no_process_left(user, job_id)
    until(cluster.are_idle, what="idle nodes")
    assert cluster.jobs()[f"hora-{job_id}-1"] == "COMPLETED"


@pytest.mark.long("hosts")
def test_a_job_trains_on_an_uploaded_dataset(login: Stack, user: Service, tmp_path: Path) -> None:
    for name, content in chips(20).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    added = hora_process(login.home, "dataset", "add", "chips", str(tmp_path), "--image-size", "32x32", "--wait")
    assert added.returncode == 0, added.stderr
    sent = {"dataset": "chips", "model": "lenet5", "batch_size": 4, "learning_rate": 0.01, "epochs": 1, "pool": POOL}
    job = ended(user, user.submit({**sent, "device": "cpu"})["id"])
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert job["dataset"]["classes"] == ["cracked", "whole"]


def test_a_job_on_two_nodes_pauses_gives_way_to_slurm_and_is_cancelled(cluster: Slurm, user: Service) -> None:
    job_id = user.submit({**ENDLESS, "device": "cpu", "pool": POOL, "placement": "spread"})["id"]
    wait_for_epochs(user, job_id, epochs=1)
    (attempt,) = user.attempts(job_id)
    assert [share["host"] for share in attempt["shares"]] == ["n1", "n2"]
    until(lambda: "checkpoint_copied" in kinds(user, job_id), what="a checkpoint in the store")
    assert_no_secret_on_the_nodes(job_id)
    user.pause(job_id)
    until(lambda: user.job(job_id)["status"] == "queued", what="the pause")
    until(cluster.are_idle, what="idle nodes")
    user.resume(job_id)
    job = wait_for_epochs(user, job_id, epochs=2, attempt=2)
    assert user.attempts(job_id)[-1]["resumed_step"] > 0
    cluster.run("scancel", "--signal=USR2", "--batch", f"--name=hora-{job_id}-2")  # as before its time limit
    wait_for_epochs(user, job_id, epochs=3, attempt=3)
    of_slurm, last = user.attempts(job_id)[-2:]
    assert (of_slurm["end_reason"], of_slurm["error"]) == ("preempted", "Slurm takes its nodes back")
    assert last["resumed_step"] > of_slurm["resumed_step"]
    assert user.job(job_id)["restarts"] == 0
    user.cancel(job_id)
    job = ended(user, job_id)
    assert job["status"] == "cancelled"
    no_process_left(user, job_id)
    until(cluster.are_idle, what="idle nodes")
    until(lambda: user.host(POOL)["slots"] == [], what="free slots")


@pytest.mark.long("hosts")
def test_a_study_with_more_jobs_than_room_runs_in_the_pool_and_has_its_report(user: Service) -> None:
    grid = {"batch_size": [32, 64, 128]}
    base = {name: value for name, value in DIGITS.items() if name not in grid} | {"epochs": 1}
    sent = user.submit_study({"name": "in-slurm", "base": base, "grid": grid, "repeats": 1})
    study = user.wait_study(sent["id"], timeout_s=1700)
    assert (study["complete"], study["counts"]["succeeded"]) == (True, 3), study["counts"]
    cells = user.report(study["id"])["cells"]
    assert [(cell["repeats"], cell["wall_s"]["mean"] > 0) for cell in cells] == [(1, True)] * 3
    waited_s = 0.0
    for job in user.jobs(study=study["id"]):
        (attempt,) = user.attempts(job["id"])
        assert attempt["shares"][0]["host"] in ("n1", "n2")
        assert attempt["queued_at"] <= attempt["handed_at"] <= attempt["created_at"]
        waited_s += user.analysis(job["id"])["ledger"]["waited_in_slurm_s"]
        (use,) = user.utilization(job["id"], metric="cpu_percent")["series"]
        assert use["host"] == attempt["shares"][0]["host"]
    assert waited_s > 0


def assert_no_secret_on_the_nodes(job_id: str) -> None:
    """Look at every process that Slurm started, and at the ranks."""
    mark = f"HORA_ATTEMPT={mark_of(job_id, 1)}".encode()
    seen = 0
    for pid in pids():
        variables = environment(pid)
        if pid != os.getpid() and (mark in variables or any(one.startswith(b"SLURM_STEP_ID=") for one in variables)):
            seen += 1
            names = {one.partition(b"=")[0] for one in variables}
            assert not names & {b"HORA_DATABASE_URL", b"HORA_BROKER_URL", b"HORA_TOKEN", b"HORA_STORE_OPTIONS"}
    assert seen >= 6  # two members, horovodrun, two ranks, and what starts them
