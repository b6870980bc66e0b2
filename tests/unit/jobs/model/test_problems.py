"""What people read about the wrong fields of a document, and what of a document that is no spec can be checked."""

from typing import Any

import pytest

from jobs.model.partial_spec import rest_of, told_of_rest
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import parse_spec
from tests.unit.jobs.model.spec_documents import SCRIPT, problems_of, smallest


@pytest.mark.parametrize(
    ("fields", "field", "message", "received"),
    [
        ({"command": ["python", 3]}, "command.1", 'must be a text: write it in quotes, "3"', "3"),
        ({"command": "python t.py"}, "command", 'must be a list, such as ["python", "t.py"]', "python t.py"),
        ({"params": [1]}, "params", "must be an object with fields", "[1]"),
        ({"epcohs": 3}, "epcohs", "no such field `epcohs`; did you mean `epochs`?", "3"),
        ({"gpus": "two"}, "gpus", "must be a whole number", "two"),
        ({"gpus": "2"}, "gpus", "must be a whole number, without quotes", "2"),
        ({"learning_rate": "fast"}, "learning_rate", "must be a number", "fast"),
        ({"mixed_gpus": "yes"}, "mixed_gpus", "must be true or false", "yes"),
        ({"device": "tpu"}, "device", "must be 'auto', 'gpu' or 'cpu'; did you mean 'gpu'?", "tpu"),
        ({"code": "abc"}, "code", "must be a digest: 64 characters, each 0-9 or a-f", "abc"),
        ({"command": []}, "command", "must have at least 1 item, not 0", "[]"),
        ({"env": {"A": 4097 * "x"}}, "env.A", "must have at most 4096 characters, not 4097", 79 * "x" + "…"),
        ({"learning_rate": 1e9}, "learning_rate", "must be at most 1000", "1000000000.0"),
    ],
    ids=str,
)
def test_a_wrong_value_is_answered_in_words(fields: dict[str, Any], field: str, message: str, received: str) -> None:
    (problem,) = problems_of({**SCRIPT, **fields})
    assert (problem.field, problem.message, problem.received) == (field, message, received)


def test_a_field_of_several_kinds_is_named_once_and_a_missing_one_has_no_value() -> None:
    problems = problems_of(smallest(dataset={"source": "d", "validation": 2}))
    assert {problem.field for problem in problems} == {"dataset.validation"}
    assert "must be a text" in {problem.message for problem in problems}
    (missing,) = problems_of({"gpus": 1})
    assert (missing.field, missing.received) == ("dataset", None)


def test_only_the_first_of_many_fields_are_compared() -> None:
    problems = problems_of(smallest(**{f"epcohs{number}": 1 for number in range(60)}))
    with_proposal = [problem for problem in problems if "did you mean `epochs`?" in problem.message]
    assert (len(problems), len(with_proposal)) == (60, 50)


def test_what_is_no_json_is_shown_as_it_was_sent() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(b'{"name": "\xc3\xa4",}')
    (problem,) = refusal.value.problems
    assert problem.received == '{"name": "ä",}'


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
