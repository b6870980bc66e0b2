"""The table of commands lists every command with its module, and what a wrong option is answered with."""

from datetime import datetime
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

import hora.cli
from hora.cli.app import app, main
from hora.cli.commands import MODULES
from hora.cli.times import moment


def commands_of(module: str) -> set[str]:
    """The commands that a module of the command line has."""
    app = getattr(import_module(f"hora.cli.{module}"), "app", None)
    return set() if app is None else set(get_group(app).commands)


def test_each_command_is_in_the_module_that_the_table_names() -> None:
    modules = {path.stem for path in Path(next(iter(hora.cli.__path__))).glob("*.py")} - {"__init__", "app"}
    assert {command: module for module in modules for command in commands_of(module)} == MODULES


def test_unknown_command_is_refused_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sumbit"]) == 2
    assert "Did you mean 'submit'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["ls"], ["hosts", "drain"], ["submit"]], ids=str)
def test_the_help_of_a_switch_shows_no_type(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"})
    assert "--help" in shown.output
    assert "<bool>" not in shown.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--gpus", "x", "true"], "'--gpus': must be a whole number (got x)"),
        (["report", "0stu", "--target", "mae=1"], "'--target': must be a number (got mae=1)"),
        (["report", "0stu", "--format", "md"], "'--format': 'md' is not one of 'table',"),
        (["logs", "0job", "--level", "warnin"], "'debug', 'info', 'warning', 'error'; did you mean 'warning'?"),
        (["config", "set", "tokn"], "'tokn' is not one of 'url', 'token'; did you mean 'token'?"),
        (["dataset", "add", "a", "/etc"], "if you mean it, add --yes"),
        *(
            ([*command, "--timeout", "-3"], "'--timeout': must be at least 0 (got -3)")
            for command in (["submit"], ["probe"], ["study", "s.yaml"], ["dataset", "add", "a", "b"])
        ),
    ],
)
def test_a_wrong_option_is_answered_with_what_came(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", "").split())


def test_a_time_is_ago_or_in_rfc_3339() -> None:
    now = datetime.fromisoformat("2030-01-08T12:00:00+00:00")
    for text, at in (
        (None, None), ("2h", "2030-01-08T10:00:00Z"), ("7d", "2030-01-01T12:00:00Z"),
        ("2030-01-31T09:00:00+01:00", "2030-01-31T08:00:00Z"),
    ):  # fmt: skip
        assert moment("--since", text, now) == at
    for wrong in ("", "tomorrow", "2030-13-01", "7 d", "-7d", "999999w"):
        with pytest.raises(typer.BadParameter, match="is not a time; write 2h, 7d, 2030-01-31") as refused:
            moment("--until", wrong, now)
        assert refused.value.param_hint == "--until"
