"""A script of `hora export` on the nodes of a real Slurm: training with no service."""

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.model.records import EpochEnded, Planned, Record, parse_record
from jobs.model.runs import Run, RunAttempt
from tests.slurm import Slurm, slurm
from tests.waiting import until

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
    argv = [sys.executable, "-m", "hora", "export", str(folder / "spec.json"), "--slurm", "--nodes", "2"]
    script = folder / "train.sh"
    script.write_text(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
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

    def of(self, number: int, kind: type[Record]) -> Sequence[Any]:
        return [record for record in self.records(number) if isinstance(record, kind)]


@pytest.fixture(scope="module")
def exported(cluster: Slurm, script: Path) -> Exported:
    return Exported(cluster, script)


def test_an_exported_script_trains_goes_on_and_does_not_train_again(exported: Exported) -> None:
    first = exported.submit()
    exported.wait_for(first, "epoch 2 of 60: loss ")
    exported.cluster.run("scancel", "--signal=USR2", "--batch", first)  # as before its time limit
    assert exported.end(first) == "FAILED", exported.output(first)
    attempt = exported.attempt(1)
    assert (attempt.reason, attempt.error) == ("preempted", "Slurm takes its nodes back"), exported.output(first)
    assert [(node.name, node.ranks) for node in attempt.nodes] == [("n1", 1), ("n2", 1)]
    assert (attempt.slurm_job, attempt.device) == (int(first), "cpu")

    second = exported.submit()
    assert exported.end(second) == "COMPLETED", exported.output(second)
    attempt = exported.attempt(2)
    assert (attempt.reason, attempt.error) == ("completed", None)
    assert attempt.ended_at > attempt.started_at > exported.attempt(1).ended_at
    (planned,) = exported.of(2, Planned)
    assert planned.start_step > 0
    epochs = [record.epoch for number in (1, 2) for record in exported.of(number, EpochEnded)]
    assert epochs == list(range(1, 61))
    assert exported.of(2, EpochEnded)[-1].metrics["val_accuracy"] > 0.5
    assert "epoch 60 of 60: loss " in exported.output(second)
    assert (exported.folder / "artifacts" / "model.weights.h5").is_file()
    assert exported.folder.stat().st_mode & 0o077 == 0
    assert Run.model_validate_json((exported.folder / "run.json").read_text()).spec.name == SPEC["name"]

    third = exported.submit("--nodes=1")
    assert exported.end(third) == "COMPLETED"
    assert "is complete since attempt 2" in exported.output(third)
    assert not (exported.folder / "attempt-3").exists()


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
    assert (state, ast.literal_eval(output)) == ("COMPLETED", shares), output
