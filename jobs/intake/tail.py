"""Follows files to which others append, by whole lines and byte offsets. Used by the supervisor's intake."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_READ_BYTES = 1024 * 1024  # of one file at once, so that a rank with much output does not delay the others
MAX_LINE_BYTES = 16 * 1024  # a longer line is returned in pieces


@dataclass
class Tail:
    """Reads from `offset` on. The caller moves it after the lines are stored. A piece ends with a whole character."""

    path: Path
    offset: int = 0
    longest: int = MAX_LINE_BYTES
    at_once: int = MAX_READ_BYTES

    def read(self, *, final: bool = False) -> tuple[list[bytes], int]:
        """New lines without their ends, and the offset after them.

        An unfinished last line is left for later, unless this is the `final` reading.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.at_once)
        except FileNotFoundError:
            return [], self.offset
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) >= self.longest:
            end = _before_last_character(data)
        if final and len(data) < self.at_once:
            end = len(data)
        lines = data[:end].split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        return [piece for line in lines for piece in _pieces(line, self.longest)], self.offset + end

    def size(self) -> int:
        """The present length of the file; 0 if there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def last_line(self) -> bytes | None:
        """The last complete line; None if there is none."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.size() - self.longest))
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        return lines[-1] if lines else None


def _pieces(line: bytes, longest: int) -> Iterator[bytes]:
    while len(line) > longest:
        cut = _before_last_character(line[:longest])
        yield line[:cut]
        line = line[cut:]
    yield line


def _before_last_character(text: bytes) -> int:
    """The start of the last character of UTF-8 `text`, if it has several bytes and may be incomplete. Else the end."""
    for back in range(1, min(len(text), 4) + 1):
        if text[-back] < 0x80:
            break
        if text[-back] >= 0xC0:
            return len(text) - back if len(text) > back else len(text)
    return len(text)
