"""The smallest specs, with changes, and the problems of a spec document. For the tests of the spec."""

import json
from typing import Any

import pytest

from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import parse_spec

SMALLEST = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
SCRIPT = {"code": "0a" * 32, "command": ["python", "train.py"]}


def problems_of(document: Any) -> list[FieldProblem]:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(text)
    return refused.value.problems


def fields_of(document: Any) -> list[str]:
    return [problem.field for problem in problems_of(document)]


def smallest(**changes: Any) -> dict[str, Any]:
    return SMALLEST | changes
