"""Forwards TCP connections to Unix sockets: `python -m tests.acceptance.forwarder ADDRESS PORT=SOCKET...`.

It stands for a database and a broker that listen on the hosts' network. Like PostgreSQL there, it drops a client that
is silent for some seconds. Otherwise the rows that such a client has locked would stay locked.
"""

import asyncio
import contextlib
import socket
import sys
from functools import partial

_KEPT_ALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
_UNANSWERED_MS = 10_000


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends."""
    try:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
    finally:
        writer.close()


async def _connect(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    client: socket.socket = writer.get_extra_info("socket")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)
    for option, value in _KEPT_ALIVE:
        client.setsockopt(socket.IPPROTO_TCP, option, value)
    try:
        server_reader, server_writer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    await asyncio.gather(carry(reader, server_writer), carry(server_reader, writer))


async def main(address: str, pairs: list[str]) -> None:
    """Listen for each PORT=SOCKET, print "ready", and forward until the process ends."""
    for port, path in (pair.split("=", 1) for pair in pairs):
        await asyncio.start_server(partial(_connect, path), address, int(port))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
