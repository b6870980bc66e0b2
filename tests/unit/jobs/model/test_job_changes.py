"""What a request to change a job may say."""

import json
from typing import Any

import pytest

from jobs.model.job_changes import changes_from, parse_changes
from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec

_CAN_CHANGE = "name, priority, time_limit_s, labels, notes, starred, archived, project"
FIXED = f"is fixed since the submission: submit a clone. What can change: {_CAN_CHANGE}"


def problems(document: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refusal:
        parse_changes(json.dumps(document))
    return {problem.field: problem.message for problem in refusal.value.problems}


def test_only_what_was_given_changes() -> None:
    assert parse_changes(b"").fields == parse_changes("{}").fields == {}
    assert changes_from({"priority": 0, "time_limit_s": None}).fields == {"priority": 0, "time_limit_s": None}
    labels = {"team": "vision", "draft": None}
    notes = {"notes": "# Why\r\n\tit *diverged*\u202e", "starred": True}
    assert changes_from(notes).fields == {"notes": "# Why\n\tit *diverged*\u202e", "starred": True}
    assert [changes_from({"notes": nothing}).fields for nothing in (None, "", " \n")] == [{"notes": None}] * 3
    assert changes_from({"name": " Zoe\u0301 ", "labels": labels}).fields == {"name": "Zo\xe9", "labels": labels}


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = {
        "priority": 101, "time_limit_s": 0, "name": "", "labels": {"a" * 64: "x", "team": 3, "long": "x" * 256},
        "epochs": 3, "prioritty": 1,
    }  # fmt: skip
    found = problems(wrong)
    assert found.keys() == {
        "priority", "time_limit_s", "name", f"labels.{'a' * 64}", "labels.team", "labels.long", "epochs", "prioritty",
    }  # fmt: skip
    assert found["labels.team"] == 'must be a text: write it in quotes, "3"'
    assert found["labels.long"] == "has 256 characters; 255 are allowed"
    assert found["prioritty"] == "no such field `prioritty`; did you mean `priority`?"
    assert found["epochs"] == FIXED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", None), ("priority", "80"), ("priority", 80.5), ("priority", True), ("priority", -1),
        ("priority", 10**30), ("time_limit_s", -5), ("time_limit_s", "2h"), ("time_limit_s", 1e9), ("name", None),
        ("name", "a\nb"), ("name", "x" * 129), ("labels", None), ("labels", ["team"]), ("labels", {"": "x"}),
        ("labels", {"a b": "x"}), ("labels", {"team": "a\x00b"}), ("labels", {"team": {}}), ("notes", "a\x00b"),
        ("notes", "x" * 20_001), ("notes", 3), ("notes", "bell \a"), ("notes", "\x9b"), ("starred", None),
        ("starred", 1), ("archived", 1), ("project", None), ("project", "No Such"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_at_its_field(field: str, value: Any) -> None:
    (wrong,) = problems({field: value})
    assert wrong.startswith(field)


@pytest.mark.parametrize("text", ["[]", "3", '"priority"', "null", "{", "NaN", '{"time_limit_s": NaN}', "\udcff"])
def test_what_is_no_object_of_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        parse_changes(text.encode(errors="surrogateescape"))


def test_every_other_field_of_a_spec_says_that_it_is_fixed() -> None:
    for field in Spec.model_fields.keys() - {"name", "priority", "time_limit_s", "labels", "project"}:
        assert problems({field: 1})[field] == FIXED
