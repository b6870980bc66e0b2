"""What surrounds every request, as plain ASGI: its id, its log line, its duration, and the limit of its body.

`Requests` lets no exception out: what nothing else caught is answered with 500 here. Around it is only `api.lingering`.
"""

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable

import structlog
from prometheus_client import Histogram
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import help_pages, page
from api.problem_answers import answer
from api.problems import BodyTooLarge

CHUNK_BYTES = 16 * 1024 * 1024  # of an upload, in one request
_PIECE_OF_UPLOAD = re.compile(r"/v1/uploads/[0-9a-z]{1,32}/content")
_FILE = re.compile(r"/v1/jobs/[0-9a-z]{1,32}/artifacts/.")
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds by machines
_PARTS_OF_PAGES = (f"{page.ASSETS}/", f"{help_pages.ASSETS}/")

_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)  # a route may say otherwise

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
                message["headers"] = _with_our_own(message["headers"], request_id)
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
        if not scope.get("state", {}).get("is_stream"):  # which lasts as long as its reader likes
            self._durations_s.labels(scope["method"], route, str(status)).observe(duration_s)
        if not _says_nothing(scope["path"], status):
            duration_ms = round(duration_s * 1000, 1)
            _log.info("request", method=scope["method"], path=scope["path"], status=status, duration_ms=duration_ms)


def _says_nothing(path: str, status: int | None) -> bool:
    """Whether a line for this request would be noise: polls of what has not changed come thousands a second."""
    is_quiet = path in _QUIET or path.startswith(_PARTS_OF_PAGES)  # and a page has a dozen of these
    return status == 304 or (status == 200 and is_quiet)


def _with_our_own(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """An answer's headers with its id, and with those that keep a browser from making something else of it."""
    said = list(headers)
    names = {name.lower() for name, _ in said}
    return [*said, *(pair for pair in _SECURITY if pair[0] not in names), (b"x-request-id", request_id.encode())]


class Heads:
    """Answers HEAD as GET, without the body: whoever serves one has to serve the other, as of RFC 9110."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        # A file has its own; and to look at a login link must not use it up.
        if (
            scope["type"] != "http"
            or scope["method"] != "HEAD"
            or _FILE.match(scope["path"])
            or scope["path"] == "/login"
        ):
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})  # no more of it: a stream ends here as well

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send_head)
        finally:
            scope["route"] = as_get.get("route")  # by which it is counted


class Packing(GZipMiddleware):
    """Packs what is worth it for those who ask for it; event streams and files go as they are.

    A file's tag is a strong one, and a part of it that is asked for later has to fit what came before.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        is_file = scope["type"] == "http" and _FILE.match(scope["path"]) is not None
        await (self.app(scope, receive, send) if is_file else super().__call__(scope, receive, send))


class BodyLimit:
    """Refuses a body of more than `limit` bytes, whether it says so or comes in chunks without end.

    A piece of an upload may be larger: its route keeps none of it in memory.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http":
            is_piece = scope["method"] == "PUT" and _PIECE_OF_UPLOAD.fullmatch(scope["path"]) is not None
            limit = CHUNK_BYTES if is_piece else self._limit
            said = Headers(scope=scope).get("content-length", "")
            if said.isdecimal() and int(said[:20]) > limit:
                raise BodyTooLarge(limit)
            receive = self._counted(receive, limit)
        await self._app(scope, receive, send)

    def _counted(self, receive: Receive, limit: int) -> Callable[[], Awaitable[Message]]:
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise BodyTooLarge(limit)
            return message

        return receive_counted
