"""One listener's stream, as an ASGI response: whenever its topic wakes, it sends what is new. Made by the routes."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Generic

import structlog
from fastapi.sse import KEEPALIVE_COMMENT
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.live.hub import KEEPALIVE_AFTER_S
from api.live.topics import DATABASE_AWAY, Listener, P, S, Topic
from jobs.lifecycle.store import JobNotFound

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 2000  # how long a reader waits before it connects again
SEND_TIMEOUT_S = 30.0  # for a reader that does not receive the data
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"}
_GREETING = f"retry: {RETRY_MS}\n\n".encode()

_log = structlog.get_logger(__name__)


def wants_stream(request: Request) -> bool:
    """Whether the answer should be a stream, on a route that also has pages."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return request.method == "GET" and MEDIA_TYPE in accepted


class LiveResponse(Response, Generic[P, S]):
    """The stream of a topic, from `position` on. `share` is held while it is open: one stream of its user.

    `charge` gets the seconds of each read until the stream has caught up: those may be all lines of a long job.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        watching: Callable[[Listener], AbstractContextManager[Topic[P, S]]],
        position: P,
        selection: S,
        *,
        sha256: str,
        share: AbstractAsyncContextManager[None],
        charge: Callable[[float], None],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._watching, self._position, self._selection = watching, position, selection
        self._sha256, self._share, self._charge = sha256, share, charge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the job has ended, the reader leaves, or the hub closes the listener.

        Nothing is sent before the stream has its share, so that a user with too many streams can get a problem.
        """
        async with self._share:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["is_stream"] = True
        listener = Listener(self._sha256)
        leaving = asyncio.create_task(_close_when_gone(listener, receive))
        try:
            with self._watching(listener) as topic:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await _send(send, listener, _GREETING)
                with suppress(JobNotFound, TimeoutError):
                    await self._send_steps(topic, listener, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()

    async def _send_steps(self, topic: Topic[P, S], listener: Listener, send: Send) -> None:
        catches_up = True
        while not listener.is_closed:
            listener.woken.clear()
            try:
                step = await topic.step(self._position, self._selection)
            except DATABASE_AWAY as error:  # the topic is woken again when the database is back
                _log.warning("live stream waits for the database", error=str(error).partition("\n")[0])
            else:
                self._position = step.position
                if catches_up:
                    self._charge(step.read_s)
                    catches_up = step.has_more
                if step.chunk:
                    await _send(send, listener, step.chunk)
                if step.is_last:
                    return
                if step.has_more:
                    continue
            if time.monotonic() - listener.last_sent_at > KEEPALIVE_AFTER_S:
                await _send(send, listener, KEEPALIVE_COMMENT)
            await listener.woken.wait()


async def _send(send: Send, listener: Listener, chunk: bytes) -> None:
    """Send bytes. Raises `TimeoutError` if the reader does not take them in time."""
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    listener.last_sent_at = time.monotonic()


async def _close_when_gone(listener: Listener, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.close()
