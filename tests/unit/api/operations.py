"""The operations of the API, as operations.txt pins them. `python -m tests.unit.api.operations` rewrites that file."""

from pathlib import Path
from typing import Any

from api.document import document

PINNED = Path(__file__).with_name("operations.txt")


def operations(openapi: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation."""
    return [
        (method.upper(), path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]


def pinned(openapi: dict[str, Any]) -> str:
    """The text of operations.txt: one line for each operation, sorted by name."""
    lines = [f"{operation['operationId']} {method} {path}" for method, path, operation in operations(openapi)]
    return "\n".join(sorted(lines)) + "\n"


if __name__ == "__main__":
    PINNED.write_text(pinned(document()))
