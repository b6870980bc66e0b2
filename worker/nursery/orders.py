"""What a process tells one that was forked for it: an order as JSON, with open files. One order for each connection.

The process that waits sees it whole or not at all: if the sender dies or does not want it any more, it ends.
"""

import json
import socket
from collections.abc import Sequence
from typing import Any

_FIRST = b"files"  # the files travel with these bytes


def send_order(connection: socket.socket, order: dict[str, Any], *, files: Sequence[int]) -> None:
    """Send the order and close the connection. Raises `OSError`."""
    with connection:
        socket.send_fds(connection, [_FIRST], files)
        connection.sendall(json.dumps(order).encode())


def wait_for_order(connection: socket.socket, *, files: int) -> tuple[dict[str, Any], list[int]] | None:
    """The order and its files, or None. Closes the connection."""
    with connection, connection.makefile("rb") as stream:
        begun, received, *_ = socket.recv_fds(connection, len(_FIRST), files)
        content = stream.read() if begun else b""
    try:
        return json.loads(content), received
    except ValueError:
        return None
