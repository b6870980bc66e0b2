"""A script of `hora export` on the nodes of a real Slurm, which trains with no service, and the import of its run."""

import ast
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.model.records import EpochEnded, Planned, Record, Summarized, parse_record
from jobs.model.runs import Run, RunAttempt
from tests.acceptance.conftest import kinds, points
from tests.commands import hora_process
from tests.slurm import Slurm, slurm
from tests.waiting import until

pytestmark = pytest.mark.long("hosts")

SPEC = {
    "name": "digits alone", "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2,
    "device": "cpu", "epochs": 60, "early_stopping": None, "pool": "slurm:main",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes with two cores and two GPUs each."""
    with slurm(gpus=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script as `hora export` printed it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("submitted from here")
    (folder / "spec.json").write_text(json.dumps(SPEC))
    script = folder / "train.sh"
    options = ("--slurm", "--nodes", "2")
    script.write_text(hora_process(folder / "home", "export", str(folder / "spec.json"), *options).stdout)
    return script


class Exported:
    """What the jobs of a script left."""

    def __init__(self, cluster: Slurm, script: Path) -> None:
        self.cluster = cluster
        self.script = script

    def submit(self, *options: str, **variables: str) -> str:
        """Hand the script to `sbatch`; returns the id of its job."""
        return self.cluster.submit(self.script, *options, HORA_HOME=str(self.script.parent / "home"), **variables)

    def end(self, job: str) -> str:
        """The last state of a job."""
        until(lambda: self.cluster.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), what=f"the end of job {job}")
        return self.cluster.state(job)

    def wait_for(self, job: str, text: str) -> None:
        """Wait until a job has printed a text."""

        def has_printed() -> bool:
            output = self.output(job)
            assert self.cluster.state(job) in ("PENDING", "RUNNING"), output
            return text in output

        until(has_printed, what=text)

    @property
    def folder(self) -> Path:
        (folder,) = (path for path in self.script.parent.glob("hora-digits-alone-*") if path.is_dir())
        return folder

    def output(self, job: str) -> str:
        """What a job printed so far."""
        return "".join(path.read_text() for path in self.script.parent.glob(f"hora-*-{job}.log"))

    def attempt(self, number: int) -> RunAttempt:
        return RunAttempt.model_validate_json((self.folder / f"attempt-{number}" / "attempt.json").read_text())

    def records(self, number: int, rank: int = 0) -> Sequence[Record]:
        lines = (self.folder / f"attempt-{number}" / "records" / f"rank-{rank}.jsonl").read_text().splitlines()
        return [record for line in lines if (record := parse_record(line)) is not None]

    def epochs(self) -> Sequence[EpochEnded]:
        """The epochs of both attempts."""
        return [one for number in (1, 2) for one in self.of(number, EpochEnded)]

    def of(self, number: int, kind: type[Record]) -> Sequence[Any]:
        return [record for record in self.records(number) if isinstance(record, kind)]


@pytest.fixture(scope="module")
def trained(cluster: Slurm, script: Path) -> Exported:
    """A run of two attempts: Slurm took its nodes back in the first one, and the second one went on to the end."""
    exported = Exported(cluster, script)
    first = exported.submit()
    exported.wait_for(first, "epoch 2 of 60: loss ")
    cluster.run("scancel", "--signal=USR2", "--batch", first)  # as before its time limit
    assert exported.end(first) == "FAILED", exported.output(first)
    assert "epoch 60 of 60" not in exported.output(first)
    second = exported.submit()
    assert exported.end(second) == "COMPLETED", exported.output(second)
    assert "epoch 60 of 60: loss " in exported.output(second)
    return exported


def test_an_exported_script_trains_and_goes_on(trained: Exported) -> None:
    first, second = trained.attempt(1), trained.attempt(2)
    assert (first.reason, first.error, first.device) == ("preempted", "Slurm takes its nodes back", "cpu")
    assert [(node.name, node.ranks) for node in first.nodes] == [("n1", 1), ("n2", 1)]
    assert (second.reason, second.error) == ("completed", None)
    assert first.ended_at is not None
    assert second.ended_at is not None
    assert first.started_at < first.ended_at < second.started_at < second.ended_at
    (planned,) = trained.of(2, Planned)
    assert planned.start_step > 0
    assert [epoch.epoch for epoch in trained.epochs()] == list(range(1, 61))
    assert trained.epochs()[-1].metrics["val_accuracy"] > 0.5
    assert (trained.folder / "artifacts" / "model.weights.h5").is_file()
    assert trained.folder.stat().st_mode & 0o077 == 0
    assert Run.model_validate_json((trained.folder / "run.json").read_text()).spec.name == SPEC["name"]


def test_a_run_that_is_complete_is_not_trained_again(trained: Exported) -> None:
    third = trained.submit("--nodes=1")
    assert trained.end(third) == "COMPLETED"
    assert "is complete since attempt 2" in trained.output(third)
    assert not (trained.folder / "attempt-3").exists()


OWN_CODE = """
import os, sys
import horovod.tensorflow as hvd
import keras
import numpy as np
from hora import run

hvd.init()
run.report(step=1, size=hvd.size())
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(run.params["rate"])), "mse")
model.fit(np.ones((4, 1)), np.full((4, 1), hvd.rank()), verbose=0)  # averages with Keras 3 there too
assert sys.argv[1] == str(run.artifacts)
with open(f"{run.artifacts}/{hvd.rank()}", "w") as file:
    weight = round(float(model.get_weights()[0][0, 0]), 5)
    print(os.environ["MASTER_ADDR"], os.environ["MY"], sys.argv[2], run.size, weight, file=file)
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_own_code_is_exported_with_its_command_and_environment(cluster: Slurm, tmp_path: Path, nodes: int) -> None:
    (tmp_path / "train.py").write_text(OWN_CODE)
    command = ["python", "train.py", "{artifacts}", "it's {learning_rate}"]
    spec = {
        "code": ".",
        "command": command,
        "gpus": 2,
        "lr_scaling": "linear",
        "env": {"MY": "a  b"},
        "params": {"rate": 0.1},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    script = tmp_path / "train.sh"
    exported = hora_process(tmp_path / "home", "export", str(tmp_path / "spec.json"), "--slurm", "--nodes", str(nodes))
    script.write_text(exported.stdout)
    job = Exported(cluster, script)
    number = job.submit()
    assert job.end(number) == "COMPLETED", job.output(number)
    assert "report: step=1 size=2" in job.output(number)
    left = sorted(path for path in tmp_path.glob("hora-*/artifacts/*"))
    assert [(path.name, path.read_text()) for path in left] == [
        (str(rank), "n1 a  b it's 0.002 2 0.9\n") for rank in range(2)
    ]


def test_an_imported_run_is_a_job_with_what_its_files_say(trained: Exported, stack: Stack, client: Service) -> None:
    first, again = (hora_process(stack.home, "import", str(trained.folder)) for _ in range(2))
    job_id = first.stdout.strip()
    assert (first.returncode, again.stdout.strip()) == (0, job_id), first.stderr
    job = client.job(job_id)
    assert (job["status"], job["end_reason"], job["attempt"]) == ("succeeded", "completed", 2)
    assert datetime.fromisoformat(job["ended_at"]) == trained.attempt(2).ended_at
    assert job["summary"]["val_accuracy"] == trained.of(2, Summarized)[0].summary.val_accuracy
    epochs = trained.epochs()
    for name in ("loss", "val_accuracy"):
        assert points(client, job_id, name) == {one.epoch: one.metrics[name] for one in epochs}
    assert [(one["number"], one["end_reason"]) for one in client.attempts(job_id)] == [
        (1, "preempted"), (2, "completed"),
    ]  # fmt: skip
    assert client.attempts(job_id)[1]["resumed_step"] == trained.of(2, Planned)[0].start_step
    assert kinds(client, job_id).count("epoch_ended") == len(epochs)
    lines = [(line["attempt"], line["rank"], line["text"]) for line in client.log_lines(job_id)]
    for number, rank in ((1, 0), (2, 1)):
        printed = (trained.folder / f"attempt-{number}" / "logs" / f"rank-{rank}.log").read_text().splitlines()
        assert [text for attempt, of_rank, text in lines if (attempt, of_rank) == (number, rank)] == printed


LAYOUT = """#!/bin/sh
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --output=layout-%j.log
exec {python} -P -c '
import os
from worker.alone.nodes import Allocation, gpus_of_nodes, layout_on
allocation = Allocation.of(os.environ)
layout = layout_on(allocation, gpus_of_nodes(allocation.slurm_job, allocation.nodes()), device="auto")
print([(share.address, list(share.ranks), share.gpu_uuids) for share in layout.shares])
'
"""


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ((), [("n1", [0, 1], ["0", "1"])]),
        (("--nodes=2", "--ntasks-per-node=1", "--gres=gpu:1"), [("n1", [0], ["0"]), ("n2", [1], ["0"])]),
        (("--gres=none",), [("n1", [0, 1], [])]),
    ],
)
def test_options_of_sbatch_win_over_the_script(
    cluster: Slurm, tmp_path: Path, options: Sequence[str], shares: Sequence[Any]
) -> None:
    script = tmp_path / "layout.sh"
    script.write_text(LAYOUT.format(python=shlex.quote(sys.executable)))
    exported = Exported(cluster, script)
    job = exported.submit(*options, CUDA_VISIBLE_DEVICES="7")  # as the shell of a person may have it
    state, output = exported.end(job), (tmp_path / f"layout-{job}.log").read_text()
    if len(shares) == 1:  # Slurm chooses the node: one may still be about to end another job
        output = output.replace("'n2'", "'n1'")
    assert (state, ast.literal_eval(output)) == ("COMPLETED", shares), output
