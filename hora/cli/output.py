"""How commands print: results to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hora.errors import Json
from hora.render.text import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ENDLESS = 100_000  # columns of a file: no line of the service is this long


def console_of(*, stderr: bool = False) -> "Console":
    """A console on standard output or standard error. Markup and names of emojis are printed as they are."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = ENDLESS
    return console


def display(result: "RenderableType") -> None:
    """Print a table or a text as a result. In a file, lines have no blanks at their ends."""
    console = console_of()
    if console.is_terminal:
        console.print(result)
        return
    with console.capture() as captured:
        console.print(result)
    for line in captured.get().removesuffix("\n").split("\n"):
        print(line.rstrip())


def print_list(
    items: Sequence[Json], table: "Callable[[Sequence[Json]], RenderableType]", *, nothing: str, as_json: bool
) -> None:
    """Print what was found as a table, or as JSON. `nothing` is the sentence for an empty list."""
    if as_json:
        print_json({"items": list(items)})
    elif items:
        display(table(items))
    else:
        say(nothing)


def tell(line: str, *, flush: bool = False, style: str | None = None) -> None:
    """Print a line as a result, in a style on a terminal. Control characters are shown as codes."""
    if style is not None and sys.stdout.isatty():
        console_of().print(plain(line), style=style, soft_wrap=True)
    else:
        print(plain(line), flush=flush)


def say(line: str) -> None:
    """Print a line that is not a result. Control characters are shown as codes."""
    print(plain(line), file=sys.stderr)


def print_json(document: Json) -> None:
    """Print the API's own JSON, as the only result."""
    print(json.dumps(document, indent=2))


def print_line(document: Json) -> None:
    """Print one of several results as one line of JSON, at once."""
    tell(json.dumps(document), flush=True)
