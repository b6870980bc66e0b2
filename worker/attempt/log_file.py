"""The logs of an attempt. Used by the supervisor before it starts `horovodrun`, so it imports little."""

import os
from pathlib import Path
from typing import BinaryIO

from jobs.runtime.files import FULL


def opened_to_append(path: Path) -> BinaryIO:
    """The file; on a full disk one that keeps nothing, because the attempt goes on without its log."""
    try:
        return path.open("ab")
    except OSError as error:
        if error.errno not in FULL:
            raise
        return open(os.devnull, "ab")


def last_lines(path: Path, count: int = 5) -> str:
    """The last lines of a log as one line; empty if there is none."""
    try:
        return " | ".join(path.read_text("utf-8", "replace").splitlines()[-count:])
    except FileNotFoundError:
        return ""
