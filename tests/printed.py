"""What a person sees of something that the command line shows."""

import io

from rich.console import Console, RenderableType


def shown(what: RenderableType, width: int = 200) -> str:
    """It as text, without colours and without spaces at the ends of lines."""
    written = io.StringIO()
    Console(file=written, width=width).print(what)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def facts_of(what: RenderableType, width: int = 200) -> dict[str, str]:
    """The rows of a table of facts: the lines below a row without a name of its own belong to it."""
    found: dict[str, str] = {}
    lines = shown(what, width).splitlines()
    indent = max(len(line) - len(line.split("  ", 1)[-1].lstrip()) for line in lines if line[:1].strip())
    name = ""
    for line in lines:
        head, rest = line[:indent].strip(), line[indent:]
        name = head or name
        found[name] = rest if head else f"{found[name]}\n{rest}"
    return found
