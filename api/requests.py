"""What surrounds every request, as plain ASGI: its id, its log line, its duration, and the limit of its body.

`Requests` is the outermost layer and lets no exception out: what nothing else caught is answered with 500 here.
"""

import re
import secrets
import time
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import BodyTooLarge, answer

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds by machines

_log = structlog.get_logger(__name__)


class Requests:
    """Gives a request its id, times it by route, logs it, and answers what nobody caught."""

    def __init__(self, app: ASGIApp, durations_s: Histogram) -> None:
        self._app = app
        self._durations_s = durations_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get("x-request-id", "")
        request_id = sent if _SANE_ID.fullmatch(sent) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        started_at = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            except Exception as error:
                if status is not None:  # too late for another answer
                    raise
                response = await answer(Request(scope), error)
                await response(scope, receive, send_with_id)
            finally:
                self._done(scope, status, time.perf_counter() - started_at)

    def _done(self, scope: Scope, status: int | None, duration_s: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self._durations_s.labels(scope["method"], route, str(status)).observe(duration_s)
        if scope["path"] not in _QUIET or status != 200:
            duration_ms = round(duration_s * 1000, 1)
            _log.info("request", method=scope["method"], path=scope["path"], status=status, duration_ms=duration_ms)


class BodyLimit:
    """Refuses a body of more than `limit` bytes, whether it says so or comes in chunks without end."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http":
            said = Headers(scope=scope).get("content-length", "")
            if said.isdecimal() and int(said[:20]) > self._limit:
                raise BodyTooLarge
            receive = self._counted(receive)
        await self._app(scope, receive, send)

    def _counted(self, receive: Receive) -> Callable[[], Awaitable[Message]]:
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise BodyTooLarge
            return message

        return receive_counted
