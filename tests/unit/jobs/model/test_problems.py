"""What people read about the wrong fields of a document."""

from typing import Any

import pytest

from jobs.model.problems import InvalidSpec
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
