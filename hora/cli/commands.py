"""The commands of `hora`, and the module of each. A module is imported when one of its commands is used.

So a command starts without the code of all others. `hora --help` imports every module. Used by `hora.cli.app`.
"""

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
    "note": "notes", "star": "notes",
    "cancel": "jobs", "pause": "jobs", "resume": "jobs", "audit": "people", "login": "people", "probe": "probe",
    "logs": "records", "metrics": "records", "study": "studies", "report": "studies", "artifacts": "artifacts",
    "code": "scripts", "diff": "scripts", "studies": "studies", "hosts": "hosts", "webhook": "webhooks",
    "token": "people", "user": "people", "project": "projects", "config": "config", "dataset": "datasets",
}  # fmt: skip


class CommandGroup(TyperGroup):
    """The group of all commands, in the order of the help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("MutableMapping[str, Any]", _Commands())  # nobody adds to them

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, without an import."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A wrong option is answered with what came and what is allowed."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from jobs.model.problems import in_words

            if isinstance(error.__cause__, ValidationError):  # typer reads values with pydantic
                detail = error.__cause__.errors()[0]
                received, message = str(detail["input"]), in_words(detail)
                error.message = message if received in message else f"{message} (got {plain(received)})"
            raise


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
