"""Writes a rank's records: whole lines, a few times a second. Used by every module that records something.

Recorder        appends to the rank's own file
NullRecorder    the records of the whole job, on the ranks that do not write them

On a full disk the records stay in memory, and the rank goes on. They are appended as soon as there is space, from the
byte on at which the last write ended, so no line is torn. Meanwhile the rank's note (`trainer.note`) says that it goes
on. The memory has a limit: beyond it records are dropped, those of steps first, and the log says how many.
"""

import errno
import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Protocol

from jobs.runtime.files import FULL, make_private
from trainer.errors import NoSpace
from trainer.note import Note
from trainer.space import wait_for_space

FLUSH_EVERY_S = 0.25
MOST_STEPS_BYTES = 16 * 1024 * 1024  # of records in memory, when those of further steps are dropped
MOST_BYTES = 2 * MOST_STEPS_BYTES  # when all further records are dropped
_CANNOT_WRITE = frozenset({*FULL, errno.EIO})


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

    def __init__(self, path: Path, note: Note | None = None) -> None:
        self._path = path
        self._note = note or Note(None)
        self._file: int | None = None
        self._unwritten = bytearray()  # its first line may be written in part
        self._why: str | None = None  # the last write failed
        self._records = self._dropped = 0
        self._flushed_at = time.monotonic()
        self._lock = threading.Lock()  # the stop watch's thread may close while the loop writes
        self._closed = False
        with self._lock:
            self._append()

    @property
    def is_behind(self) -> bool:
        """Whether records wait in memory because they cannot be written."""
        return self._why is not None

    def write(self, record: Serializable) -> None:
        """Append a record now, after those that were buffered."""
        self.write_line(record.model_dump_json())

    def write_line(self, line: str) -> None:
        """Append a record that is already JSON."""
        self._take(line, most_bytes=MOST_BYTES)
        self.flush()

    def buffer(self, record: Serializable) -> None:
        """Append a record with the others of the same quarter of a second."""
        self._take(record.model_dump_json(), most_bytes=MOST_STEPS_BYTES)
        if time.monotonic() - self._flushed_at >= FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Append the buffered records."""
        with self._lock:
            if not self._closed:
                self._append()

    def settle(self, *, within_s: float) -> None:
        """Append all records, and wait for space if there is none. Raises `NoSpace`."""
        self.flush()
        if self.is_behind:
            wait_for_space(self._settled, self.waited, within_s=within_s)

    def waited(self, seconds: float) -> None:
        """Say in the note that this rank waits for space, and for how long it has."""
        self._write_note(why=self._why or os.strerror(errno.ENOSPC), waited_s=math.ceil(seconds))

    def close(self, last_line: str) -> None:
        """Append the buffered records and the last line of the file. Later records are dropped.

        If there is no space for it, the last line goes into the note.
        """
        with self._lock:
            if not self._closed:
                self._unwritten += f"{last_line}\n".encode()
                self._append()
                self._closed = True
                if self.is_behind:
                    self._write_note(why=self._why, exit_line=last_line)

    def _settled(self) -> None:
        self.flush()
        if self.is_behind:
            raise NoSpace(f"its records cannot be written: {self._why}")

    def _take(self, line: str, *, most_bytes: int) -> None:
        with self._lock:
            self._records += 1
            if len(self._unwritten) > most_bytes:
                self._dropped += 1
            else:
                self._unwritten += f"{line}\n".encode()

    def _append(self) -> None:
        self._flushed_at = time.monotonic()
        try:
            if self._file is None:
                make_private(self._path.parent)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            while self._unwritten:  # a full disk or a signal can shorten a write
                del self._unwritten[: os.write(self._file, self._unwritten)]
        except OSError as error:
            if error.errno not in _CANNOT_WRITE:
                raise
            if self._why is None:
                print(f"warning: no space: records wait in memory: {error.strerror}", flush=True)
            self._why = error.strerror
            self._write_note(why=self._why)
            return
        if self._why is not None:
            self._why = None
            self._write_note(why=None)
            lost = f"; {self._dropped} records were dropped" if self._dropped else ""
            print(f"there is space again: the records are written{lost}", flush=True)

    def _write_note(self, *, why: str | None, waited_s: int = 0, exit_line: str | None = None) -> None:
        self._note.write(
            records=self._records,
            held_back_bytes=len(self._unwritten),
            dropped=self._dropped,
            waited_s=waited_s,
            why=why,
            **({} if exit_line is None else {"exit": json.loads(exit_line)}),
        )


class NullRecorder:
    """Takes every record and writes none."""

    def write(self, record: Serializable) -> None:
        """Drop a record."""

    def buffer(self, record: Serializable) -> None:
        """Drop a record."""

    def flush(self) -> None:
        """Do nothing."""
