"""A folder of this machine becomes a dataset, and a job trains on it: command line, api, worker, two ranks.

Nothing of that can be read by another user of the machine.
"""

import json
from pathlib import Path

import pytest

from hora.service import Json, Service
from hora.stack.control import Stack
from tests.archives import chips, write_files
from tests.commands import hora_process
from tests.other_user import modes_of, needs_root, open_to_others, paths_below

TRAINING = {
    "dataset": "chips", "model": "lenet5", "batch_size": 4, "learning_rate": 0.01, "gpus": 2, "epochs": 2,
    "early_stopping": None,
}  # fmt: skip


MADE = (
    "datasets/.uploads/", "datasets/chips/1/whole/", "logs/worker.log", "run/broker.sock", "state.json", "token", "url",
    "runs/JOB/artifacts/model.keras", "runs/JOB/artifacts/tensorboard/", "runs/JOB/attempt-1/launch/",
    "runs/JOB/attempt-1/logs/rank-0.log", "runs/JOB/attempt-1/records/rank-1.jsonl",
    "runs/JOB/checkpoints/attempt-1/checkpoint-",
)  # fmt: skip
# What is not closed by its own mode, and why others cannot get in all the same.
PASSAGES = {
    "": "the group of the database's user passes through the home",
    "run": "the group of the database's user passes through the folder of sockets",
    "runs": "scripts run as another user, who passes through to the folder of the job",
}


@pytest.fixture(scope="module")
def version(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The dataset `chips`, added from a folder."""
    folder = write_files(tmp_path_factory.mktemp("data") / "chips", chips(20))
    added = hora_process(
        stack.home, "dataset", "add", "chips", str(folder), "--image-size", "32x32", "--validation", "0.2",
        "--wait", "--json",
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    document: Json = json.loads(added.stdout)
    return document


@pytest.fixture(scope="module")
def job(client: Service, version: Json) -> Json:
    """The job that trained on it."""
    return client.wait(client.submit(TRAINING)["id"], timeout_s=240)


@needs_root
def test_no_other_user_of_the_machine_gets_at_anything_that_a_stack_makes(
    stack: Stack, client: Service, job: Json
) -> None:
    home = stack.home
    upload = client.start_upload(filename="half.zip", size_bytes=2000)
    client.send_piece(upload["id"], 0, bytes(1000))
    runtime = Path(stack.broker_url.removeprefix("redis+socket://")).parent
    paths = list(paths_below(home, runtime))
    names = {path.removeprefix(f"{home}/").replace(job["id"], "JOB") for path, _ in paths}
    for made in MADE:
        assert any(name.startswith(made) for name in names), f"the job made no {made}"
    assert {kind for _, kind in paths} == {"file", "folder", "socket"}
    assert open_to_others(paths) == []
    # Closed one by one as well: a folder that is moved elsewhere, or whose parent is opened, stays closed.
    modes = {path.removeprefix(str(home)).lstrip("/"): mode for path, mode in modes_of(paths).items()}
    programs = "postgresql-"  # the database's group runs them, if its user cannot reach those of this environment
    closed = {path: mode for path, mode in modes.items() if path not in PASSAGES and not path.startswith(programs)}
    for path in [path for path in closed if path.startswith("runs/") and not path.startswith(f"runs/{job['id']}")]:
        del closed[path]  # a script of another test may have run there as another user
    assert {path: oct(mode) for path, mode in closed.items() if mode & 0o077} == {}
    assert {oct(modes[path]) for path in PASSAGES} <= {"0o711", "0o710", "0o700"}
    client.remove_upload(upload["id"])


def test_a_job_trains_on_an_uploaded_dataset_and_records_its_version(
    stack: Stack, client: Service, version: Json, job: Json
) -> None:
    assert (version["status"], version["facts"]["class_counts"]) == ("ready", {"cracked": 20, "whole": 20})
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert job["dataset_version"] == {"name": "chips", "version": 1, "fingerprint": version["fingerprint"]}
    assert (job["dataset"]["classes"], job["dataset"]["shape"]) == (["cracked", "whole"], [32, 32, 3])
    assert (job["dataset"]["train"], job["dataset"]["validation"], job["dataset"]["damaged"]) == (32, 8, 0)
    assert job["spec"]["dataset"]["source"] == "chips@1"
    place = stack.home / "datasets" / "chips" / "1"
    (place / "whole" / "0.png").unlink()  # nobody should change the files of a version
    again = client.wait(client.clone(job["id"])["id"], timeout_s=240)
    assert (again["status"], again["end_reason"]) == ("failed", "bad_data")
    assert "the files of chips@1 have changed" in again["error"]
    shown = hora_process(stack.home, "dataset", "show", "chips@1")
    assert version["fingerprint"] in shown.stdout
