"""The small file that a script and its rank share, by which the script learns that it should stop.

`hora.run` has the same layout. Each field is written by one side alone, eight bytes at once.
"""

import ctypes
import os
import sys
from pathlib import Path

_FIELD_BYTES = 8


class Fields(ctypes.Structure):
    """As `hora.run.stopping.Control`."""

    _fields_ = [
        ("calls", ctypes.c_uint64),  # script: how often it asked whether to stop
        ("answered_yes", ctypes.c_uint64),  # script: 1 once the answer was yes
        ("stop_requested", ctypes.c_uint64),  # rank: 1 once somebody wants the job to stop
        ("stop_at", ctypes.c_uint64),  # rank: the call that answers yes; 0: the ranks have not agreed yet
    ]


class Control:
    """The rank's side of the file, which is made new.

    It reads and writes without a mapping: whoever touches the mapping of a file that a script cut off is killed.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, ctypes.sizeof(Fields))

    def hold(self) -> None:
        """Let every further call of the script wait until `decide` says when to stop."""
        self._write("stop_requested", 1)

    def decide(self, stop_at: int) -> None:
        """Let the script stop at this call."""
        self._write("stop_at", stop_at)

    @property
    def calls(self) -> int:
        """How often the script has asked."""
        return self._read("calls")

    @property
    def has_answered_yes(self) -> bool:
        """Whether the script has got the answer that it should stop."""
        return bool(self._read("answered_yes"))

    def _read(self, field: str) -> int:
        """The value of a field; 0 if the script has cut the file off."""
        return int.from_bytes(os.pread(self._file, _FIELD_BYTES, getattr(Fields, field).offset), sys.byteorder)

    def _write(self, field: str, value: int) -> None:
        os.pwrite(self._file, value.to_bytes(_FIELD_BYTES, sys.byteorder), getattr(Fields, field).offset)
