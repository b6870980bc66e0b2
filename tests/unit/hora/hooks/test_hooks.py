"""What a script's Python does when it starts, and which weights it tells."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_example_code import has_torch
from tests.stack_settings import SYSTEM_PYTHON
from trainer.script.channel import Channel
from worker.attempt.code_folder import link_library


def python(folder: Path, script: str, *folders: Path, program: str = sys.executable, **variables: str) -> Any:
    """Run a script as a rank does, with further folders on its path."""
    link_library(folder / "lib")
    path = ":".join(map(str, (folder / "lib", *folders)))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [program, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_file_that_runs_at_the_start_of_python_still_runs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own start')")
    assert python(tmp_path, "print('script')", tmp_path / "own").stdout == "own start\nscript\n"


def test_another_version_that_cannot_be_adapted_is_said_and_runs(tmp_path: Path) -> None:
    (tmp_path / "own" / "horovod").mkdir(parents=True)
    for name in ("__init__", "_keras"):
        (tmp_path / "own" / "horovod" / f"{name}.py").write_text("version = 1")
    look = "import importlib.util as util; util.find_spec('horovod._keras')\n"  # as some libraries do, long before
    done = python(tmp_path, look + "import horovod._keras as own; print(own.version)", tmp_path / "own")
    assert done.stdout == "1\n"
    assert done.stderr.startswith("warning: Hora could not adapt horovod._keras: AttributeError: ")


def test_a_package_of_the_environment_comes_before_its_stand_in(tmp_path: Path) -> None:
    script = "from sparkdl import HorovodRunner; print(HorovodRunner(2).run(lambda rate: 2 * rate, rate=3))"
    assert python(tmp_path, script, WORLD_SIZE="2").stdout == "6\n"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sparkdl.py").write_text("class HorovodRunner(int):\n    def run(self, f, rate): return 'own'")
    assert python(tmp_path, script, tmp_path / "own").stdout == "own\n"


TRAIN = """
import sys, torch

def train(make, weights, steps):
    optimizer = make(weights)
    torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for _ in range(steps):
        optimizer.zero_grad()
        sum((each * each).sum() for each in weights).backward()
        optimizer.step()

class Parts(torch.optim.SGD):  # makes its steps through an optimizer of a part, as those that shard their state do
    def step(self, closure=None):
        if not hasattr(self, "part"):
            self.part = torch.optim.SGD(self.param_groups[0]["params"][:1], lr=0.1)
        self.part.step()

weights = [torch.nn.Parameter(torch.full((n,), 2.0)) for n in (2, 3)]
"""


@pytest.mark.skipif(not has_torch(), reason="the system's Python has no PyTorch")
def test_weights_are_told_ever_more_rarely_and_at_the_end(tmp_path: Path) -> None:
    channel, alerts = Channel(tmp_path / "channel"), list[Any]()
    (tmp_path / "run.json").write_text(json.dumps({"channel": str(tmp_path / "channel")}))

    def told(script: str, size: int = 2) -> list[Any]:
        variables = {"HORA_RUN_FILE": str(tmp_path / "run.json"), "HOROVOD_SIZE": str(size)}
        python(tmp_path, TRAIN + script, program=str(SYSTEM_PYTHON), **variables)
        messages = list(channel.messages())
        alerts.extend(each for each in messages if each["kind"] == "alert")
        return [
            (each["optimizer"], each["step"], each["size"], each["averages"])
            for each in messages
            if each["kind"] == "weights"
        ]

    sgd = "lambda weights: torch.optim.SGD(weights, lr=0.1)"
    one = [(1, step, 5, False) for step in (3, 6, 12, 20)]  # the optimizer is gone when the script ends
    assert told(f"train({sgd}, weights, 20)") == one
    two = [(2, step, 3, False) for step in (3, 4)]  # of the first one the end is not known: the second has its place
    assert told(f"train({sgd}, weights, 20)\ntrain({sgd}, [torch.nn.Parameter(torch.ones(3))], 4)") == one[:3] + two
    assert told("train(lambda weights: Parts(weights, lr=0.1), weights, 3)") == one[:1]
    assert told(f"from hora import run\nrun.compare_weights(False)\ntrain({sgd}, weights, 20)") == []
    assert told(f"train({sgd}, weights, 20)", size=1) == []

    many = "for _ in range(18):\n    " + f"train({sgd}, [torch.nn.Parameter(torch.ones(1))], 3)"
    assert told(many)[-1] == (16, 3, 1, False)
    sharded = f"class DTensor(torch.nn.Parameter): pass\ntrain({sgd}, [DTensor(torch.ones(3))], 3)"
    assert told(sharded) == []
    assert [each["text"] for each in alerts] == [
        "Only those of the first 16 optimizers are compared.",
        "Each rank holds a part of the model (FSDP or DeepSpeed).",
    ]
