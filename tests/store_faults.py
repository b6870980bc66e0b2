"""A proxy in front of an S3 server. A test makes it slow, unreliable, full or unreachable while clients use it.

    with s3_server(folder) as server, faulty(server.endpoint) as link:
        store = Store(server.url, server.options_at(link.endpoint))
        link.fail(0.3, seed=7)

A signature covers the address that the client knows, so the proxy passes the Host header on as it is.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

_ADDRESS = "127.0.0.1"
_ACCEPTING_S = 0.02  # a connection that is being accepted is not in the list of the server yet
_CHUNK_BYTES = 64 * 1024
_NOT_PASSED_ON = {"connection", "keep-alive", "transfer-encoding", "expect"}  # they are about one connection
_CODES = {500: "InternalError", 503: "SlowDown", 507: "XMinioStorageFull"}


@dataclass(frozen=True)
class _Mode:
    bytes_per_s: float | None = None
    failing_share: float = 0.0
    seed: int = 0
    is_full: bool = False


class FaultyLink:
    """The way to a server. A fault counts for requests that begin after it; `cut` also ends those under way.

    `under_way` is how many requests are being carried now. `seen` counts the others by what became of them: `passed`,
    `refused`, `half read`, `answer cut`, `full`, or `broken` if the server or the client was gone.
    """

    def __init__(self, upstream: str) -> None:
        self.seen: Counter[str] = Counter()
        self.under_way = 0
        self.port = 0
        self._upstream = upstream
        self._mode = _Mode()
        self._times_sent: Counter[str] = Counter()
        self._free_at = 0.0  # when the slow line will have carried what it got
        self._listening: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="store-faults", daemon=True)
        self._thread.start()
        self._call(self._open())

    @property
    def endpoint(self) -> str:
        """The address for clients, always the same."""
        return f"http://{_ADDRESS}:{self.port}"

    def normal(self) -> None:
        """End all faults."""
        self._mode = _Mode()
        self.mend()

    def slow(self, bytes_per_s: float) -> None:
        """Carry this many bytes a second: the bodies of all requests and answers together."""
        self._mode = _Mode(bytes_per_s=bytes_per_s)

    def fail(self, share: float, seed: int) -> None:
        """Let a share of the requests fail.

        The answer is 500 or 503, before the body or after half of it. Or the server does what it is asked, and the
        connection ends in the middle of its answer. The seed decides, with the request and how often it was sent.
        """
        self._mode = _Mode(failing_share=share, seed=seed)

    def full(self) -> None:
        """Answer 507 to everything that would store bytes. Files can be read, listed and removed."""
        self._mode = _Mode(is_full=True)

    def cut(self) -> None:
        """End all connections and refuse new ones."""
        self._call(self._stop_listening())

    def mend(self) -> None:
        """Accept connections again."""
        self._call(self._listen())

    def close(self) -> None:
        """End the proxy."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _open(self) -> None:
        self._server = web.Server(self._handle, access_log=None)
        self._client = aiohttp.ClientSession(
            # A new connection for each request: the server may have been away since the last one.
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        await self._listen()

    async def _listen(self) -> None:
        if self._listening is None:
            self._listening = await self._loop.create_server(self._server, _ADDRESS, self.port, backlog=256)
            self.port = self._listening.sockets[0].getsockname()[1]

    async def _stop_listening(self) -> None:
        if self._listening is not None:
            for listener in self._listening.sockets:
                self._loop.remove_reader(listener.fileno())
            # asyncio loses a connection, without closing it, if its server is closed while it accepts that.
            await asyncio.sleep(_ACCEPTING_S)
            self._listening.close()
            self._listening = None
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def _close(self) -> None:
        await self._stop_listening()
        await self._server.shutdown(1)
        await self._client.close()
        await asyncio.sleep(_ACCEPTING_S)  # for the sockets that were closed just now

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        mode = self._mode
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if mode.is_full and _stores_bytes(request):
            return await self._refuse(request, 507, "full")
        luck = self._luck(mode, request)
        if luck.random() >= mode.failing_share:
            return await self._pass_on(request)
        outcome = luck.choice(("refused", "half read", "answer cut"))
        if outcome == "answer cut":
            return await self._pass_on(request, cut=True)
        return await self._refuse(request, luck.choice((500, 503)), outcome)

    def _luck(self, mode: _Mode, request: web.BaseRequest) -> Random:
        name = f"{request.method} {request.path} {request.query.get('partNumber')}"
        self._times_sent[name] += 1
        return Random(f"{mode.seed} {name} {self._times_sent[name]}")  # noqa: S311

    async def _refuse(self, request: web.BaseRequest, status: int, outcome: str) -> web.Response:
        self.seen[outcome] += 1
        left_bytes = request.content_length or 0
        if outcome == "half read":
            left_bytes //= 2
        while left_bytes > 0 and (chunk := await request.content.read(min(left_bytes, _CHUNK_BYTES))):
            left_bytes -= len(chunk)
        code = _CODES[status]
        return web.Response(
            status=status,
            body=f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>A fault of the test</Message></Error>",
            content_type="application/xml",
        )

    async def _pass_on(self, request: web.BaseRequest, *, cut: bool = False) -> web.StreamResponse:
        response: web.StreamResponse = web.Response()
        self.under_way += 1
        try:
            async with self._client.request(
                request.method,
                URL(self._upstream + request.raw_path, encoded=True),
                headers=_passed_on(request.headers.items()),
                data=self._paced(request.content) if request.body_exists else None,
                allow_redirects=False,
            ) as answer:
                carried_bytes = (answer.content_length or 0) // 2 if cut else None
                if request.method == "HEAD" or carried_bytes != 0:
                    response = web.StreamResponse(
                        status=answer.status, reason=answer.reason, headers=_passed_on(answer.headers.items())
                    )
                    await response.prepare(request)
                    await self._carry(answer.content, response, carried_bytes)
                if not cut:
                    await response.write_eof()
        except (aiohttp.ClientError, OSError):
            self.seen["broken"] += 1
            cut = True
        else:
            self.seen["answer cut" if cut else "passed"] += 1
        finally:
            self.under_way -= 1
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    async def _carry(self, source: aiohttp.StreamReader, response: web.StreamResponse, most_bytes: int | None) -> None:
        async for chunk in self._paced(source):
            piece = chunk if most_bytes is None else chunk[:most_bytes]
            await response.write(piece)
            if most_bytes is not None:
                most_bytes -= len(piece)
                if not most_bytes:
                    return

    async def _paced(self, source: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        """The chunks of a body, no faster than the line carries them."""
        while chunk := await source.read(_chunk_bytes(self._mode)):
            if (bytes_per_s := self._mode.bytes_per_s) is not None:
                now = time.monotonic()
                self._free_at = max(now, self._free_at) + len(chunk) / bytes_per_s
                await asyncio.sleep(self._free_at - now)
            yield chunk


@contextmanager
def faulty(upstream: str) -> Iterator[FaultyLink]:
    """A proxy in front of the server at an address, without a fault, until the end of the block."""
    link = FaultyLink(upstream)
    try:
        yield link
    finally:
        link.close()


def _chunk_bytes(mode: _Mode) -> int:
    """A slow line carries small pieces: then a fault that ends is over at once."""
    return _CHUNK_BYTES if mode.bytes_per_s is None else max(1, min(_CHUNK_BYTES, int(mode.bytes_per_s / 20)))


def _stores_bytes(request: web.BaseRequest) -> bool:
    return request.method == "PUT" or (request.method == "POST" and "delete" not in request.query)


def _passed_on(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _NOT_PASSED_ON]
