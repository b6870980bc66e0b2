"""What a connection knows of its app and of its writing, without a socket."""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from api.serving.protocol import LimitedProtocol
from api.serving.server import config_for
from jobs.runtime.settings import Settings

GET = b"GET / HTTP/1.1\r\nHost: hora\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += data

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Read on: the test sends no more than it wants."""

    def resume_reading(self) -> None:
        """Read on."""

    def close(self) -> None:
        """Keep what was written."""


def connected(app: ASGIApp) -> tuple[LimitedProtocol, Wire]:
    config = config_for(app, Settings(), proxy_headers=False)
    config.load()
    make: Callable[..., LimitedProtocol] = config.http_protocol_class  # type: ignore[assignment]
    protocol, wire = make(config=config, server_state=ServerState(), app_state={}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


def test_the_app_hears_of_the_end_while_another_request_waits() -> None:
    received: list[MutableMapping[str, Any]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        received.append(await receive())
        received.append(await receive())

    async def leave() -> None:
        protocol, _ = connected(app)
        protocol.data_received(GET * 2)
        await asyncio.sleep(0)
        protocol.connection_lost(None)
        await asyncio.wait_for(asyncio.gather(*protocol.tasks), 60)

    asyncio.run(leave())
    assert [message["type"] for message in received] == ["http.request", "http.disconnect"]


def test_each_pause_in_writing_is_a_wait_of_its_own() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        await receive()

    async def write() -> None:
        protocol, _ = connected(app)
        protocol.data_received(GET)
        await asyncio.sleep(0)
        protocol.pause_writing()
        first = protocol.state()
        protocol.resume_writing()
        protocol.pause_writing()
        second = protocol.state()
        protocol.connection_lost(None)
        await asyncio.gather(*protocol.tasks)
        assert first.wait is second.wait
        assert first.number != second.number

    asyncio.run(write())
