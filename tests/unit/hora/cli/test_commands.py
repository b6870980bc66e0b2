"""The table of commands, the help of their options, what a wrong option is answered with, and what needs a yes."""

from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_group

import hora.cli
from hora.cli import broad_folders
from hora.cli.app import main
from hora.cli.broad_folders import confirm_breadth, kind_of, size_of
from hora.cli.commands import MODULES
from hora.cli.spec_command import SpecCommand
from hora.cli.times import moment
from jobs.model.descriptions import without_links
from jobs.model.spec import DatasetSpec, ModelSpec, Spec
from tests.command_table import commands


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


def test_the_home_and_folders_of_the_system_are_known_and_others_may_be_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to("/etc")
    of_system = ("/", "/etc", "/usr", "/usr/share", "/home", "/var/lib", "/proc/1", "/etc/ssl", f"{tmp_path}/link")
    assert {kind_of(Path(folder)) for folder in of_system} == {"a folder of the system"}
    assert kind_of(tmp_path) == "your home folder"
    assert kind_of(tmp_path / "chips") is None
    assert kind_of(Path("/usr/share/dataset-fashion-mnist")) is None


def test_only_a_large_folder_needs_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"123")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    confirm_breadth(tmp_path, may_ask=False)
    confirm_breadth(tmp_path / "not there", may_ask=False)
    assert size_of(tmp_path)[0] >= 3
    monkeypatch.setattr(broad_folders, "_LARGE_BYTES", 2)
    with pytest.raises(typer.BadParameter, match=r"is a very large folder: .* in 1 file; if you mean it, add --yes"):
        confirm_breadth(tmp_path, may_ask=True)  # standard input of tests is no terminal
    for number in range(5):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(broad_folders, "_MOST_FILES", 3)  # then the counting ends
    with pytest.raises(typer.BadParameter, match=r"more than 0.0 MB in 3 files"):
        confirm_breadth(tmp_path, may_ask=False)
