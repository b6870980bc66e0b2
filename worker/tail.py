"""Following files that others append to, by whole lines and byte offsets. Used by the supervisor's intake."""

from dataclasses import dataclass
from pathlib import Path

MAX_READ_BYTES = 1024 * 1024  # of one file at once, so that no rank's chatter crowds out the others
MAX_LINE_BYTES = 16 * 1024  # a longer line is stored in pieces


@dataclass
class Tail:
    """Reads on from `offset`; the caller moves it once the lines are stored."""

    path: Path
    offset: int = 0

    def read(self, *, final: bool = False) -> tuple[list[bytes], int]:
        """New lines without their ends, and the offset after them.

        An unfinished last line is left for later, unless this is the `final` reading.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(MAX_READ_BYTES)
        except FileNotFoundError:
            return [], self.offset
        end = data.rfind(b"\n") + 1
        if end == 0 and (final or len(data) >= MAX_LINE_BYTES):
            end = len(data)
        if final and len(data) < MAX_READ_BYTES:
            end = len(data)
        lines = data[:end].split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        pieces = [line[i : i + MAX_LINE_BYTES] for line in lines for i in range(0, max(len(line), 1), MAX_LINE_BYTES)]
        return pieces, self.offset + end
