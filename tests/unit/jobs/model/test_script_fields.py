"""What becomes of the placeholders in a script's command."""

from typing import Any

import pytest

from jobs.lifecycle.script_admission import script_problems
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.script_fields import MOST_FILLED_BYTES, CommandTooLong, filled_in
from jobs.model.spec import spec_from


def test_texts_are_put_in_as_they_are_and_all_else_as_json() -> None:
    values = {"params.name": "a b", "params.of": {"x": [1]}, "lr": 0.5}
    command = ["--n={params.name}", "{params.of}", "{lr}{lr}", "{{lr}}", "{", "{ lr }"]
    assert list(filled_in(command, values)) == ["--n=a b", '{"x": [1]}', "0.50.5", "{lr}", "{", "{ lr }"]


def test_values_are_bounded_over_the_whole_command_and_never_all_written() -> None:
    half = {"text": "\u00e9" * (MOST_FILLED_BYTES // 4)}
    assert len(list(filled_in(["{text}", "{text}"], half))) == 2
    with pytest.raises(CommandTooLong, match=r"^With the value of \{text\}"):
        list(filled_in(["{text}", "{text}", "{text}"], half))
    with pytest.raises(CommandTooLong):  # 400 MB
        list(filled_in(["{text}" * 10_000], {"text": "x" * 40_000}))


@pytest.mark.parametrize(
    ("command", "params", "fields"),
    [
        (["python", "{no}", "{params.x}"], {"x": 1}, ["command.1"]),
        (["python", "{no}", "{nor}"], {}, ["command.1", "command.2"]),
        (["python", "{params.x}" * 9], {"x": "y" * 30_000}, ["command.1"]),
        (["python", *["{params.x}"] * 9], {"x": "y" * 30_000}, ["command"]),
        (["python", "{params.x}"], {"x": "y" * 30_000}, []),
    ],
)
def test_a_command_that_cannot_be_filled_in_is_refused_by_its_place(
    command: list[str], params: dict[str, Any], fields: list[str]
) -> None:
    spec = spec_from({"code": "a" * 64, "command": command, "params": params})
    assert [problem.field for problem in script_problems(spec, SitePolicy(runs_code=True))] == fields
