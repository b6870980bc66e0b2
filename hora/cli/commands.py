"""The commands of `hora`, and the module of each. A module is imported when one of its commands is used.

So a command starts without the code of all others. `hora --help` imports every module. Used by `hora.cli.app`.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_group

from hora.render.text import plain

MODULES = {
    "up": "stack", "down": "stack", "keys": "stack", "doctor": "stack", "submit": "jobs", "run": "scripts",
    "export": "runs", "import": "runs", "clone": "jobs", "ls": "jobs", "queue": "queue", "show": "jobs", "set": "jobs",
    "note": "notes", "star": "notes", "archive": "notes", "rm": "removal",
    "cancel": "jobs", "pause": "jobs", "resume": "jobs", "audit": "people", "login": "people", "probe": "probe",
    "logs": "records", "metrics": "records", "study": "studies", "report": "studies", "article": "articles",
    "artifacts": "artifacts",
    "code": "scripts", "diff": "scripts", "studies": "studies", "hosts": "hosts", "webhook": "webhooks",
    "token": "people", "user": "people", "project": "projects", "usage": "usage", "config": "config",
    "dataset": "datasets",
}  # fmt: skip

_ONE_OF, _QUOTED = " is not one of ", re.compile("'([^']*)'")


class CommandGroup(TyperGroup):
    """The group of all commands, in the order of the help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("MutableMapping[str, Any]", _Commands())  # nobody adds to them

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, without an import."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, whose help shows no type of a switch."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _hide_types_of_switches(command, ctx)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, for `--help`."""
        _hide_types_of_switches(self, ctx, inner=False)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A wrong option is answered with what came, what is allowed, and what was probably meant."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from jobs.model.problems import in_words
            from jobs.suggestions import meant

            if isinstance(error.__cause__, ValidationError):  # typer reads values with pydantic
                detail = error.__cause__.errors()[0]
                received, message = str(detail["input"]), in_words(detail)
                error.message = message if received in message else f"{message} (got {plain(received)})"
            if _ONE_OF in error.message:
                received, *allowed = _QUOTED.findall(error.message)
                error.message = error.message.removesuffix(".") + meant(received, allowed, "'")
            raise


def _hide_types_of_switches(command: Any, ctx: Any, *, inner: bool = True) -> None:
    """A switch takes no value, so its help needs no type."""
    for option in [*command.params, command.get_help_option(ctx)]:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for each in getattr(command, "commands", {}).values() if inner else ():
        _hide_types_of_switches(each, ctx)


class _Commands(Mapping[str, Any]):
    """Commands by name. Looking one up imports its module; the names alone import nothing."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module = import_module(f"hora.cli.{MODULES[name]}")
            self._loaded |= get_group(module.app).commands
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)
