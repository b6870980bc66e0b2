"""What a process tells one that was forked for it: an order as one line of JSON, with open files.

The process that waits sees it whole or not at all: if the sender dies or does not want it any more, it ends. A
connection takes one order.
"""

import json
import socket
from collections.abc import Sequence
from typing import Any

_FIRST = b"files"  # the files travel with these bytes


def send_order(connection: socket.socket, order: dict[str, Any], *, files: Sequence[int]) -> None:
    """Send the order and close the connection. Raises `OSError`."""
    with connection:
        write_order(connection, order, files=files)


def wait_for_order(connection: socket.socket, *, files: int) -> tuple[dict[str, Any], list[int]] | None:
    """The order and its files, or None. Closes the connection."""
    with connection:
        return read_order(connection, files=files)


def write_order(connection: socket.socket, order: dict[str, Any], *, files: Sequence[int]) -> None:
    """Send the order. The connection stays open for an answer. Raises `OSError`."""
    socket.send_fds(connection, [_FIRST], files)
    connection.sendall(json.dumps(order).encode() + b"\n")


def read_order(connection: socket.socket, *, files: int) -> tuple[dict[str, Any], list[int]] | None:
    """The order and its files, or None. The connection stays open. Raises `OSError` if it has a time limit."""
    begun, received, *_ = socket.recv_fds(connection, len(_FIRST), files)
    with connection.makefile("rb") as stream:
        line = stream.readline() if begun else b""
    return (json.loads(line), received) if line.endswith(b"\n") else None


def rank_of(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments and the variables of a rank in Horovod's command line for it: `env NAME=value ... COMMAND`."""
    first = next(place for place, word in enumerate(command[1:], 1) if "=" not in word)
    return list(command[first:]), dict(word.split("=", 1) for word in command[1:first])
