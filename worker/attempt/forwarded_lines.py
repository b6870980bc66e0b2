"""Appends what ranks on other hosts wrote to the lead's own files, and keeps it in memory while the disk is full.

Used by the supervisor's side of the connections to members (`worker.attempt.members`).
"""

import errno
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from jobs.runtime.files import FULL
from worker.attempt.member_protocol import LOGS, RECORDS

_MOST_HELD_BACK_BYTES = 32 * 1024 * 1024  # of one file of a rank


class ForwardedLines:
    """The lines that a member sent. Several threads may use it."""

    def __init__(self, *, records: Path, logs: Path) -> None:
        self._folders = {RECORDS: records, LOGS: logs}
        self._lock = threading.Lock()
        self._held_back: dict[Path, bytearray] = {}  # lines that the disk has no space for

    def add(self, kind: str, rank: int, content: bytes) -> None:
        """Append what a rank wrote to its records or log. Raises `OSError` if neither disk nor memory has space."""
        with self._lock:
            lines = self._held_back.setdefault(self._path(kind, rank), bytearray())
            if len(lines) + len(content) > _MOST_HELD_BACK_BYTES:
                raise OSError(errno.ENOSPC, "the disk of the lead host is full, and so is its memory for lines")
            lines += content
        self.store()

    def store(self) -> None:
        """Append the lines to their files, as far as there is space. Raises `OSError` if that fails otherwise."""
        with self._lock:
            for path, lines in self._held_back.items():
                if lines:
                    _append(path, lines)

    def unstored_records(self, ranks: Iterable[int]) -> dict[int, bytes]:
        """The records of these ranks that could not be stored, because the disk is full."""
        with self._lock:
            held_back = {rank: bytes(self._held_back.get(self._path(RECORDS, rank), b"")) for rank in ranks}
        return {rank: lines for rank, lines in held_back.items() if lines}

    def _path(self, kind: str, rank: int) -> Path:
        return self._folders[kind] / f"rank-{rank}.{'jsonl' if kind == RECORDS else 'log'}"


def _append(path: Path, lines: bytearray) -> None:
    """Append and remove what the disk has space for. Raises `OSError`."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            while lines:
                del lines[: os.write(file, lines)]
        finally:
            os.close(file)
    except OSError as error:
        if error.errno not in FULL:
            raise
