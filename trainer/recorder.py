"""Writes a rank's records: whole lines, a few times a second. Used by every module that records something.

Recorder        appends to the rank's own file
NullRecorder    the records of the whole job, on the ranks that do not write them
"""

import os
import threading
import time
from pathlib import Path
from typing import Protocol

from jobs.runtime.files import make_private

FLUSH_EVERY_S = 0.25


class Serializable(Protocol):
    """Anything with pydantic's `model_dump_json`. With it this module needs no import of pydantic."""

    def model_dump_json(self) -> str: ...


class Records(Protocol):
    """Where records go."""

    def write(self, record: Serializable) -> None: ...
    def buffer(self, record: Serializable) -> None: ...
    def flush(self) -> None: ...


class Recorder:
    """Appends records to one file, whole lines at a time. A reader may still see an incomplete last line."""

    def __init__(self, path: Path) -> None:
        make_private(path.parent)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lines: list[str] = []
        self._flushed_at = time.monotonic()
        self._lock = threading.Lock()  # the stop watch's thread may close while the loop writes
        self._closed = False

    def write(self, record: Serializable) -> None:
        """Append a record now, after those that were buffered."""
        self.write_line(record.model_dump_json())

    def write_line(self, line: str) -> None:
        """Append a record that is already JSON."""
        self._lines.append(line)
        self.flush()

    def buffer(self, record: Serializable) -> None:
        """Append a record with the others of the same quarter of a second."""
        self._lines.append(record.model_dump_json())
        if time.monotonic() - self._flushed_at >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Append the buffered records."""
        with self._lock:
            if not self._closed:
                self._append()

    def close(self, last_line: str) -> None:
        """Append the buffered records and the last line of the file. Later records are dropped."""
        with self._lock:
            if not self._closed:
                self._lines.append(last_line)
                self._append()
                self._closed = True

    def _append(self) -> None:
        lines, self._lines = self._lines, []
        self._flushed_at = time.monotonic()
        remaining = "".join(f"{line}\n" for line in lines).encode()
        while remaining:  # a full disk or a signal can shorten a write
            remaining = remaining[os.write(self._file, remaining) :]


class NullRecorder:
    """Takes every record and writes none."""

    def write(self, record: Serializable) -> None:
        """Drop a record."""

    def buffer(self, record: Serializable) -> None:
        """Drop a record."""

    def flush(self) -> None:
        """Do nothing."""
