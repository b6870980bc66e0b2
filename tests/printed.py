"""The text that a person sees when the command line prints a renderable."""

import io

from rich.console import Console, RenderableType


def as_text(renderable: RenderableType, width: int = 200) -> str:
    """The renderable as text, without colours and without spaces at the ends of lines."""
    written = io.StringIO()
    Console(file=written, width=width).print(renderable)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def facts_of(renderable: RenderableType, width: int = 200) -> dict[str, str]:
    """The rows of a table of facts by name. A line without a name belongs to the row above it."""
    rows: dict[str, str] = {}
    lines = as_text(renderable, width).splitlines()
    indent = max(len(line) - len(line.split("  ", 1)[-1].lstrip()) for line in lines if line[:1].strip())
    name = ""
    for line in lines:
        head, rest = line[:indent].strip(), line[indent:]
        name = head or name
        rows[name] = rest if head else f"{rows[name]}\n{rest}"
    return rows
