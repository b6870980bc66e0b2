"""What a job is called whose spec has no name."""

from typing import Any

import pytest

from jobs.model.job_names import name_of
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from

OWN = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
CODE = {"code": "0" * 64, "gpus": 4}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (OWN, "digits-lenet5-2x64"),
        (OWN | {"batch_per": "global"}, "digits-lenet5-2x32"),
        (OWN | {"dataset": "chips@3", "model": "resnet20"}, "chips-resnet20-2x64"),
        (OWN | {"dataset": "/data/cifar10/train"}, "cifar10-lenet5-2x64"),
        (OWN | {"dataset": "synthetic:samples=5000,classes=4,shape=32x32x3"}, "synthetic-lenet5-2x64"),
        (OWN | {"dataset": "/" + "x" * 200}, "x" * 123 + "-2x64"),
        (OWN | {"probe": {}}, "probe-digits-lenet5-2x64"),
        (CODE | {"command": ["python", "-u", "src/train.py", "--lr", "0.1"]}, "train-x4"),
        (CODE | {"command": ["python", "-m", "pack.fit"]}, "fit-x4"),
        (CODE | {"command": ["python", "-c", "print(1)"]}, "script-x4"),
    ],
)
def test_it_says_what_the_job_is(fields: dict[str, Any], name: str) -> None:
    spec = spec_from(fields)
    assert name_of(spec, resolve_plan(spec, None)) == name
