"""Where the commands print: results on standard output, everything else on standard error."""

import json
import sys
from typing import TYPE_CHECKING

from hora.errors import Json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def console_of(*, stderr: bool = False) -> "Console":
    """The terminal, or the file that stands for it."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = 200  # a file has no edge
    return console


def display(what: "RenderableType") -> None:
    """A table or a text, as a result."""
    console_of().print(what)


def say(line: str) -> None:
    """A line that is no result."""
    print(line, file=sys.stderr)


def print_json(document: Json) -> None:
    """The API's own JSON, as the only result."""
    print(json.dumps(document, indent=2))
