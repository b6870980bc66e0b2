"""The small file that a script and its rank share, by which the script learns that it should stop.

`hora.run` has the same layout. Each field is written by one side alone, eight bytes at once.
"""

import ctypes
import mmap
import os
from pathlib import Path


class Fields(ctypes.Structure):
    """As `hora.run.Control`."""

    _fields_ = [
        ("calls", ctypes.c_uint64),  # script: how often it asked whether to stop
        ("told", ctypes.c_uint64),  # script: 1 once the answer was yes
        ("asked", ctypes.c_uint64),  # rank: 1 once somebody wants the job to stop
        ("stop_at", ctypes.c_uint64),  # rank: the call that answers yes; 0: the ranks have not agreed yet
    ]


class Control:
    """The rank's side of the file, which is made new."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, ctypes.sizeof(Fields))
            self._fields = Fields.from_buffer(mmap.mmap(file, ctypes.sizeof(Fields)))
        finally:
            os.close(file)

    def ask(self) -> None:
        """Let every further call of the script wait until `decide` says when to stop."""
        self._fields.asked = 1

    def decide(self, stop_at: int) -> None:
        """Let the script stop at this call."""
        self._fields.stop_at = stop_at

    @property
    def calls(self) -> int:
        """How often the script has asked."""
        return int(self._fields.calls)

    @property
    def was_told(self) -> bool:
        """Whether the script has got the answer that it should stop."""
        return bool(self._fields.told)
