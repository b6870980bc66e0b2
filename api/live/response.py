"""One listener's stream, as an ASGI response: it asks its topic what is new whenever that wakes, until it is over."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Generic

import structlog
from fastapi.sse import KEEPALIVE_COMMENT
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.live.hub import QUIET_S
from api.live.topics import AWAY, Listener, P, Topic, W
from jobs.lifecycle.store import JobNotFound

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 2000  # for how long a reader waits before it comes back
PATIENCE_S = 30.0  # with one that takes nothing of what it was sent
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"}
_GREETING = f"retry: {RETRY_MS}\n\n".encode()

_log = structlog.get_logger(__name__)


class LiveResponse(Response, Generic[P, W]):
    """A stream of what a topic tells, from `position` on."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        watching: Callable[[Listener], AbstractContextManager[Topic[P, W]]],
        position: P,
        wanted: W,
        *,
        sha256: str,
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._watching, self._position, self._wanted = watching, position, wanted
        self._sha256 = sha256

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the topic is over, the reader leaves, or the hub says so."""
        scope.setdefault("state", {})["is_stream"] = True
        listener = Listener(self._sha256)
        leaving = asyncio.create_task(_close_when_gone(listener, receive))
        try:
            with self._watching(listener) as topic:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await _send(send, listener, _GREETING)
                with suppress(JobNotFound, TimeoutError):
                    await self._tell(topic, listener, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()

    async def _tell(self, topic: Topic[P, W], listener: Listener, send: Send) -> None:
        while not listener.is_over:
            listener.woken.clear()
            try:
                step = await topic.step(self._position, self._wanted)
            except AWAY as error:  # the topic is woken again when the database is back
                _log.warning("live stream waits", error=str(error).partition("\n")[0])
            else:
                self._position = step.position
                if step.chunk:
                    await _send(send, listener, step.chunk)
                if step.over:
                    return
                if step.more:
                    continue
            if time.monotonic() - listener.told_at > QUIET_S:
                await _send(send, listener, KEEPALIVE_COMMENT)
            await listener.woken.wait()


async def _send(send: Send, listener: Listener, chunk: bytes) -> None:
    """Raises `TimeoutError` where the reader takes nothing for long."""
    async with asyncio.timeout(PATIENCE_S):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    listener.told_at = time.monotonic()


async def _close_when_gone(listener: Listener, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.close()
