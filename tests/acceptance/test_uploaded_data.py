"""A folder of this machine becomes a dataset, and a job trains on it: command line, api, worker, two ranks."""

import json
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.archives import chips
from tests.commands import hora_process

TRAINING = {
    "dataset": "chips", "model": "lenet5", "batch_size": 4, "learning_rate": 0.01, "gpus": 2, "epochs": 2,
    "early_stopping": None,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in chips(20).items():
        path = tmp_path / "chips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "chips"


def test_a_job_trains_on_an_uploaded_dataset_and_records_its_version(
    stack: Stack, client: Service, folder: Path
) -> None:
    added = hora_process(
        stack.home, "dataset", "add", "chips", str(folder), "--image-size", "32x32", "--validation", "0.2",
        "--wait", "--json",
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    version = json.loads(added.stdout)
    assert (version["status"], version["facts"]["class_counts"]) == ("ready", {"cracked": 20, "whole": 20})
    job = client.wait(client.submit(TRAINING)["id"], timeout_s=240)
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
