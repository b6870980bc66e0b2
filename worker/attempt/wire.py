"""JSON lines over pipes, without ever waiting for the pipe. Used at both ends of a member's ssh connection.

A process that waits inside a write can do nothing else, but a member has to end its ranks when the other side is
silent. Bytes of files are sent as Latin-1 text, in which each byte is one character.
"""

import json
import os
from contextlib import suppress
from typing import Any

Message = dict[str, Any]
_PIECE_BYTES = 64 * 1024


class Incoming:
    """Reads whole lines. Lines that are not JSON objects, such as output of a login shell, are skipped."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self.file = file
        self._rest = bytearray()
        self.ended = False

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self.file

    def read(self) -> list[Message]:
        """The messages that have arrived."""
        with suppress(BlockingIOError):
            while piece := os.read(self.file, _PIECE_BYTES):
                self._rest += piece
                if len(piece) < _PIECE_BYTES:
                    break
            else:
                self.ended = True
        end = self._rest.rfind(b"\n") + 1
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[:end]
        return [message for line in lines if (message := _parsed(line)) is not None]


class Outgoing:
    """Writes whole lines, as far as the other side accepts them. The rest is kept for the next time."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self._file = file
        self.pending = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._file

    def send(self, message: Message) -> None:
        """Send a message after the pending ones. Raises `OSError` if the other side is gone."""
        self.pending += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what is pending. Raises `OSError` if the other side is gone."""
        with suppress(BlockingIOError):
            while self.pending:
                del self.pending[: os.write(self._file, self.pending)]

    def close(self) -> None:
        """Stop sending, and drop what is pending. The other side sees the end."""
        self.pending.clear()
        os.close(self._file)


def as_text(content: bytes) -> str:
    """Any bytes as text for a message."""
    return content.decode("latin-1")


def as_bytes(text: str) -> bytes:
    """The bytes from which `as_text` made the text."""
    return text.encode("latin-1")


def _parsed(line: bytes) -> Message | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
