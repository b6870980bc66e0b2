"""A client of HTTP/1.1 that sends exactly the bytes that a test wants, over a real socket."""

import json
import socket
from contextlib import suppress
from typing import Any, NamedTuple, Self


class RawAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class RawConnection:
    """One connection. Receiving never waits longer than `timeout_s`."""

    def __init__(self, port: int, *, source: str = "127.0.0.1", timeout_s: float = 120, receives: int = 0) -> None:
        self.socket = socket.socket()
        if receives:  # bytes that the kernel takes before the peer has to wait
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        self.socket.settimeout(timeout_s)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()

    @property
    def port(self) -> int:
        """This side's port."""
        return int(self.socket.getsockname()[1])

    def send(self, *pieces: bytes) -> int:
        """Send all pieces, or as many as the peer takes before it closes. Returns the bytes sent."""
        sent_bytes = 0
        with suppress(ConnectionError):
            for piece in pieces:
                self.socket.sendall(piece)
                sent_bytes += len(piece)
        return sent_bytes

    def answer(self) -> RawAnswer:
        """The next answer. Raises `EOFError` if the connection is closed instead."""
        line = self._line()
        status = int(line.split()[1])
        headers: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        if status in (100, 204, 304):
            return RawAnswer(status, headers, b"")
        if headers.get("transfer-encoding") != "chunked":
            return RawAnswer(status, headers, self._file.read(int(headers["content-length"])))
        chunks = []
        while size := int(self._line(), 16):
            chunks.append(self._file.read(size))
            self._line()
        self._line()
        return RawAnswer(status, headers, b"".join(chunks))

    def is_closed(self) -> bool:
        """Wait for the next byte, or the end: whether it is the end."""
        try:
            return self._file.read(1) == b""
        except ConnectionError:
            return True

    def _line(self) -> str:
        try:
            line = self._file.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise EOFError("the connection was closed")
        return line.decode("latin-1").rstrip("\r\n")
