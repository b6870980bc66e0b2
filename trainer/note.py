"""The note of a rank: what it says while it cannot append to its records. Written by `trainer.recorder`.

A file of a fixed size that exists before the disk is full. It is overwritten in place, which takes no new block. The
supervisor reads it as a `jobs.model.records.RankNote`. Importing pydantic takes too long here, so the fields are plain.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_BYTES = 1024  # as `jobs.model.records.NOTE_BYTES`


class Note:
    """The file at `path`. It is made if it does not exist. If that fails, nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._file: int | None = None
        if path is not None:
            with suppress(OSError):
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, **fields: Any) -> None:
        """Replace what the note says."""
        if self._file is None:
            return
        most_text = _BYTES
        while len(content := json.dumps(_cut(fields, most_text)).encode()) >= _BYTES:
            most_text //= 2
        with suppress(OSError):
            os.pwrite(self._file, content.ljust(_BYTES - 1) + b"\n", 0)


def _cut(value: Any, most_text: int) -> Any:
    """The same with shorter texts."""
    if isinstance(value, dict):
        return {key: _cut(inner, most_text) for key, inner in value.items()}
    return value[:most_text] if isinstance(value, str) else value
