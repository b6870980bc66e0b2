"""Options of the command line that are fields of the spec, and their help."""

from typing import Any

import pytest

from hora.cli.spec_command import SpecCommand
from jobs.model.descriptions import without_links
from jobs.model.spec import DatasetSpec, ModelSpec, Spec
from tests.command_table import commands

SOURCE, NETWORK = DatasetSpec.model_fields["source"], ModelSpec.model_fields["name"]
OF_SPEC = {"--dataset": SOURCE, "--model": NETWORK, "--gpus": Spec.model_fields["gpus"]}
TRAINING = {f"--{name.replace('_', '-')}": Spec.model_fields[name] for name in ("batch_size", "epochs", "project")}


def shown_help(command: Any) -> dict[str, str]:
    """The help of each option as a shell shows it."""
    with command.make_context("hora", [], resilient_parsing=True) as context:
        return {item.value: item.help for item in command.shell_complete(context, "--")}


@pytest.mark.parametrize(("name", "fields"), [("submit", OF_SPEC | TRAINING), ("probe", OF_SPEC)])
def test_help_of_an_option_is_the_description_of_the_spec_field(name: str, fields: dict[str, Any]) -> None:
    options = shown_help(dict(commands())[(name,)])
    assert {option: options[option] for option in fields} == {
        option: without_links(field.description) for option, field in fields.items()
    }


def test_every_option_has_its_own_help_or_is_a_spec_field() -> None:
    for path, command in commands():
        lacking = [option.name for option in command.params if option.param_type_name == "option" and not option.help]
        assert not lacking or isinstance(command, SpecCommand), path
        assert set(lacking) <= Spec.model_fields.keys(), path
