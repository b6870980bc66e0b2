"""What of a document that is no spec can still be checked."""

from typing import Any

import pytest

from jobs.model.partial_spec import rest_of, told_of_rest
from jobs.model.problems import FieldProblem
from tests.unit.jobs.model.spec_documents import problems_of, smallest


def rest(**fields: Any) -> Any:
    document = smallest(**fields)
    return rest_of(document, [problem.field for problem in problems_of(document)])


def test_the_right_fields_are_left() -> None:
    spec = rest(learning_rate=-1, gpus=99, dataset={"source": "digits", "format": "parket"}, model="resnet5")
    assert (spec.gpus, spec.own_dataset.source, spec.own_dataset.format) == (99, "digits", "auto")
    assert (spec.own_model.name, spec.learning_rate) == ("resnet5", 0.001)


@pytest.mark.parametrize(
    "fields",
    [
        {"dataset": {"source": "digits", "augment": ["cropp"]}},
        {"labels": {"a b.c": "d"}, "epcohs": 3},
        {"optimizer": {"name": "adma"}},
        {"code": "abc", "command": ["python", "train.py"]},  # without the code, no command is allowed
    ],
    ids=str,
)
def test_every_kind_of_wrong_field_can_be_left_out(fields: dict[str, Any]) -> None:
    assert rest(**fields) is not None


@pytest.mark.parametrize(
    ("field", "wrong", "is_told"),
    [
        ("dataset.source", "learning_rate", True),
        ("dataset.source", "dataset.format", True),
        ("dataset.source", "dataset.source", False),
        ("dataset.source", "code", False),
        ("dataset.image_size", "learning_rate", False),  # it may rest on anything
        ("model.name", "dataset.format", True),
        ("model.weights", "model.name", False),  # whether they fit depends on the name
        ("after.0", "gpus", True),
        ("project", "priority", True),
    ],
)
def test_a_problem_is_told_unless_it_may_come_from_what_was_left_out(field: str, wrong: str, is_told: bool) -> None:
    problem = FieldProblem(field, "is wrong")
    assert told_of_rest([problem], [wrong]) == ([problem] if is_told else [])
