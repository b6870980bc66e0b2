"""Where the commands print: results on standard output, everything else on standard error."""

import json
import sys
from typing import TYPE_CHECKING

from hora.errors import Json
from hora.render.text import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ENDLESS = 100_000  # columns: a file has no edge, and no text of the service is this long


def console_of(*, stderr: bool = False) -> "Console":
    """The terminal, or the file that stands for it. What looks like markup, or like an emoji's name, is only text."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = ENDLESS
    return console


def display(what: "RenderableType") -> None:
    """A table or a text, as a result; into a file without the blanks that fill its columns."""
    console = console_of()
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    for line in captured.get().removesuffix("\n").split("\n"):
        print(line.rstrip())


def tell(line: str, *, flush: bool = False) -> None:
    """A line as a result. Whatever stands in it does not drive the terminal."""
    print(plain(line), flush=flush)


def say(line: str) -> None:
    """A line that is no result. Whatever stands in it does not drive the terminal."""
    print(plain(line), file=sys.stderr)


def print_json(document: Json) -> None:
    """The API's own JSON, as the only result."""
    print(json.dumps(document, indent=2))


def print_line(document: Json) -> None:
    """One of several results, an object a line, at once."""
    tell(json.dumps(document), flush=True)
