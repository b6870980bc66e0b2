"""What Slurm is asked for, and the script that holds the nodes."""

import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.runtime.settings import Settings
from jobs.scheduling.allocations import LiveAllocation
from jobs.scheduling.pools import Shape
from tests.waiting import until
from worker.attempt.allocation_files import files_of
from worker.slurm import batch

NAME = "hora-0abc-2"


def allocation(shape: Shape, **fields: Any) -> LiveAllocation:
    known: dict[str, Any] = {
        "id": 1, "job_id": "0abc", "number": 2, "slurm_job": None, "state": None, "reason": None, "expected_at": None,
        "failures": 0, "problem": None, "tried_s": None, "time_limit_s": None, "priority": 50,
        "is_wanted": True, "attempt_id": None, "attempt_ended": False,
    }  # fmt: skip
    return LiveAllocation(shape=shape, **(known | fields))


def of_pool(home: Path, **fields: Any) -> Settings:
    settings = Settings(home=home, slurm_partition="main", **fields).of_pool
    assert settings is not None
    return settings


def options(
    shape: Shape, limit: timedelta | None = None, *, settings: dict[str, Any] | None = None, **fields: Any
) -> list[str]:
    own = of_pool(Path("/home"), **(settings or {}))
    return list(batch.options(allocation(shape, **fields), files_of(own), own, partition_limit=limit))


@pytest.mark.parametrize(
    ("shape", "asked"),
    [
        (Shape(2, 4, "gpu"), ["--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4"]),
        (Shape(1, 8, "gpu", gpu_type="a100"), ["--nodes=1", "--ntasks-per-node=8", "--gres=gpu:a100:8"]),
        (Shape(1, 1, "gpu", feature="v100"), ["--nodes=1", "--ntasks-per-node=1", "--gres=gpu:1", "--constraint=v100"]),
        (Shape(3, 2, "cpu"), ["--nodes=3", "--ntasks-per-node=2"]),
    ],
)
def test_an_allocation_asks_for_nodes_ranks_and_gpus(shape: Shape, asked: list[str]) -> None:
    kinds = ("--nodes", "--ntasks", "--gres", "--constraint")
    assert [option for option in options(shape) if option.startswith(kinds)] == asked


@pytest.mark.parametrize(
    ("limit_s", "of_partition", "minutes"),
    [
        (None, None, 1440), (None, timedelta(hours=2), 120), (3600.0, None, 70), (3601.0, None, 71),
        (7200.0, timedelta(hours=2), 120), (1.0, timedelta(minutes=1), 3),
    ],
)  # fmt: skip
def test_the_time_is_always_said(limit_s: float | None, of_partition: timedelta | None, minutes: int) -> None:
    asked = options(Shape(1, 1, "cpu"), of_partition, time_limit_s=limit_s)
    assert f"--time={minutes}" in asked
    assert {f"--job-name={NAME}", "--no-requeue", "--signal=B:USR2@120"} <= set(asked)


def test_options_of_the_operator_come_last() -> None:
    chosen = {"slurm_account": "vision", "slurm_qos": "high", "slurm_args": "--mem=0 --comment='two words'"}
    asked = options(Shape(1, 1, "cpu"), settings=chosen, priority=90)
    assert asked[-4:] == ["--account=vision", "--qos=high", "--mem=0", "--comment=two words"]
    assert "--nice=100" in asked


@pytest.mark.parametrize("text", ["--wrap=id", "-N2", "run.sh", "--nodes=4", "--clusters=x", "'"])
def test_options_that_hora_sets_itself_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="slurm_args"):
        Settings(home=Path("/home"), slurm_partition="main", slurm_args=text)


def test_the_script_says_when_slurm_takes_the_nodes_back_and_ends_when_it_is_told(tmp_path: Path) -> None:
    settings = of_pool(tmp_path / "a home with 'quotes' and $(blanks)")
    files = files_of(settings)
    files.prepare(NAME)
    script = batch.script(allocation(Shape(1, 1, "cpu")), files, settings).replace("sleep 5 &", "sleep 0.05 &")
    assert "sleep 0.05 &" in script
    with subprocess.Popen(["sh", "-c", script]) as process:
        until(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(), what="its first look")
        process.send_signal(signal.SIGUSR2)
        until(files.leaving(NAME).exists, what="its word")
        assert process.poll() is None
        files.finish(NAME)
        assert process.wait(60) == 0
    assert files.is_finishing(NAME)
    files.prepare(NAME)  # for the next one of the same attempt
    assert not files.leaving(NAME).exists()
    assert not files.is_finishing(NAME)
