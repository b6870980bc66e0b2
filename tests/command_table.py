"""The table of all commands in docs/cli.md. `python -m tests.command_table` generates it from the command line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from hora.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_HEAD = "| command | options | does |\n|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command with its path, and each group that can run without a subcommand."""
    group = group or get_command(app)
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def table() -> str:
    """The generated table."""
    return _HEAD + "".join(_row(path, command) for path, command in sorted(commands(), key=lambda one: one[0]))


def _row(path: tuple[str, ...], command: Any) -> str:
    arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
    options = [_option(one) for one in command.params if one.param_type_name == "option" and not one.hidden]
    does = str(command.help or "").strip().partition("\n")[0]
    cells = (f"`hora {' '.join([*path, *arguments])}`", " ".join(options) or "-", does)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]")
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    return "`" + "/".join([*option.opts, *option.secondary_opts]) + "`"


def with_table(page: str) -> str:
    """The page with the generated table in place of its own."""
    return _TABLE.sub(lambda _: table(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
