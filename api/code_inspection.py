"""Looks at one archive of code: `python -m api.code_inspection MOST_BYTES` reads it as its standard input.

A process of its own, started by `api.code_reading`, because strangers send the archives. It writes JSON to its standard
output: the `digest` of the archive and its `files`, or why it is `refused`.
"""

import hashlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from jobs.data.code_archives import BadArchive, inspect

_MOST_MEMORY_BYTES = 512 * 1024 * 1024
_MOST_CPU_S = 60
_NICE = 10  # requests have precedence


def main() -> None:
    """Read the archive, write what is in it."""
    for limit, most in (
        (resource.RLIMIT_DATA, _MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, _MOST_CPU_S),
        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(limit, (most, most))
    os.nice(_NICE)
    sys.stdout.write(json.dumps(_answer(Path("/dev/stdin"), int(sys.argv[1]))))


def _answer(archive: Path, most_bytes: int) -> dict[str, Any]:
    try:
        files = inspect(archive, most_bytes=most_bytes)
    except BadArchive as refusal:
        return {"refused": str(refusal)}
    except MemoryError:
        return {"refused": "the archive cannot be read: it takes too much memory"}
    with archive.open("rb") as file:
        return {"digest": hashlib.file_digest(file, "sha256").hexdigest(), "files": files}


if __name__ == "__main__":
    main()
