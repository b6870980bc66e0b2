"""Sends the archive of a script to the members on the other hosts, which have no database. Used at both ends.

The archive goes in pieces after a member's task, before its host can be ready. Nothing waits for a slow host longer
than for all of them: the pieces are sent as far as each connection accepts them.
"""

import base64
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from worker.attempt.wire import Incoming, Message, Outgoing

_PIECE_BYTES = 128 * 1024
_TICK_S = 0.2


def send_code(archive: Path, connections: Sequence[Outgoing], *, within_s: float) -> None:
    """Send the archive on all connections. One that breaks, or is too slow, gets no more. Raises `OSError` of the disk.

    Whoever reads the answers finds out that such a host does not become ready.
    """
    give_up_at = time.monotonic() + within_s
    with archive.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            message = {"code": base64.b64encode(piece).decode()}
            for connection in connections:
                with suppress(OSError):
                    connection.send(message)
            _flush(connections, give_up_at)
            connections = [connection for connection in connections if not connection.pending]


def _flush(connections: Sequence[Outgoing], give_up_at: float) -> None:
    """Wait until what is pending is sent, so that memory holds one piece."""
    waiting = [connection for connection in connections if connection.pending]
    while waiting and time.monotonic() < give_up_at:
        _, ready, _ = select.select([], waiting, [], _TICK_S)
        for connection in ready:
            try:
                connection.flush()
            except OSError:
                connection.pending.clear()
        waiting = [connection for connection in waiting if connection.pending]


def receive_code(
    messages: Sequence[Message], incoming: Incoming, archive: Path, size_bytes: int, *, is_too_late: Callable[[], bool]
) -> list[Message]:
    """Write the archive that arrives, `messages` first. Returns the messages after it. Raises `OSError`."""
    rest = list(messages)
    with archive.open("wb") as file:
        while file.tell() < size_bytes:
            if not rest:
                select.select([incoming], [], [], _TICK_S)
                rest = incoming.read()
            while rest and file.tell() < size_bytes:
                file.write(base64.b64decode(rest.pop(0).get("code", "")))
            if file.tell() < size_bytes and not rest and (incoming.ended or is_too_late()):
                raise OSError(f"the archive of the code did not arrive: {file.tell()} of {size_bytes} bytes")
    return rest
