"""The standard output of a rank: a file whose disk may be full. Then lines are lost, and the rank goes on."""

import io
from typing import Any, TextIO

from jobs.runtime.files import FULL


class _LogFile(io.FileIO):
    """A file that takes everything. What cannot be written is dropped, and counted in the log when there is space."""

    _lost_bytes = 0

    def write(self, content: Any) -> int:
        """Write all of it, or what there is space for."""
        view = memoryview(content).cast("B")
        size_bytes = len(view)
        try:
            if self._lost_bytes:
                super().write(f"\n[{self._lost_bytes} bytes of this log are lost: there was no space]\n".encode())
                self._lost_bytes = 0
            while view:
                view = view[super().write(view) or 0 :]
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._lost_bytes += len(view)
        return size_bytes


def log_stream(descriptor: int) -> TextIO:
    """A text stream on an open descriptor. It writes whole lines at once."""
    raw = io.BufferedWriter(_LogFile(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", line_buffering=True, errors="backslashreplace")
