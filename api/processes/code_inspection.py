"""Looks into archives of code: `python -m api.processes.code_inspection ARCHIVE...`.

A process of its own, started by `code_reading`, because strangers send the archives. It reads from its standard input
what to do, and writes JSON to its standard output: what was asked, or why an archive is `refused`.
"""

import hashlib
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.data.code_archives import BadArchive, inspect
from jobs.data.code_texts import differences, texts_of

Json = dict[str, Any]

_MOST_MEMORY_BYTES = 512 * 1024 * 1024
_NICE = 10  # requests have precedence


def main() -> None:
    """Read the request and the archives, write what is in them."""
    request = json.load(sys.stdin)
    for limit, most in (
        (resource.RLIMIT_DATA, _MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, request["most_cpu_s"]),
        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(limit, (most, most))
    os.nice(_NICE)
    sys.stdout.write(json.dumps(_answer(request, [Path(name) for name in sys.argv[1:]])))


def _answer(request: Json, archives: Sequence[Path]) -> Json:
    try:
        return _ACTIONS[request["action"]](request, *archives)
    except BadArchive as refusal:
        return {"refused": str(refusal)}
    except MemoryError:
        return {"refused": "the archive cannot be read: it takes too much memory"}


def _inspect(request: Json, archive: Path) -> Json:
    """The `digest` of an archive and its `files`."""
    files = inspect(archive, most_bytes=request["most_bytes"])
    with archive.open("rb") as file:
        return {"digest": hashlib.file_digest(file, "sha256").hexdigest(), "files": files}


def _read(request: Json, archive: Path) -> Json:
    """The `text` of one file."""
    return {"text": texts_of(archive, [request["path"]]).get(request["path"])}


def _compare(request: Json, before: Path, after: Path) -> Json:
    """The `hunks` of each file that differs between two archives."""
    paths = request["paths"]
    return {"hunks": differences(texts_of(before, set(paths)), texts_of(after, set(paths)), paths)}


_ACTIONS: dict[str, Callable[..., Json]] = {"inspect": _inspect, "read": _read, "compare": _compare}


if __name__ == "__main__":
    main()
