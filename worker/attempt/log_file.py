"""Opens a log of an attempt. Used by the supervisor before it starts `horovodrun`, so it imports little."""

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
