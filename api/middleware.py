"""Middleware around every request, as plain ASGI: its id, log line and duration, security headers, HEAD, gzip,
and the limit of its body.

`RequestTracking` answers every exception that nothing else caught, with 500. Only `api.lingering` is outside of it.
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

from api.pages import docs_page, help_pages, page
from api.problem_answers import answer
from api.problems import BodyTooLarge

CHUNK_BYTES = 16 * 1024 * 1024  # of an upload, at most, in one request
_UPLOAD_PATH = re.compile(r"/v1/uploads/[0-9a-z]{1,32}/content")
_FILE_PATH = re.compile(r"/v1/jobs/[0-9a-z]{1,32}/(?:artifacts|checkpoints/[^/]+/[^/]+)/.")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNLOGGED = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds by machines
_PAGE_ASSETS = (f"{page.ASSETS}/", f"{help_pages.ASSETS}/", f"{docs_page.PATH}/")

# Scripts and styles only from this origin, and none inside the document: so text that is read as markup cannot run.
# Every answer has it, not only HTML: a 304 says nothing of its type, and browsers store the headers of a 304.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
)  # a route may set its own

_log = structlog.get_logger(__name__)


class RequestTracking:
    """Gives each request an id, measures its duration by route, logs it, and answers uncaught exceptions."""

    def __init__(self, app: ASGIApp, durations_s: Histogram) -> None:
        self._app = app
        self._durations_s = durations_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client_id = Headers(scope=scope).get("x-request-id", "")
        request_id = client_id if _REQUEST_ID.fullmatch(client_id) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_own_headers(message["headers"], request_id)
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
                self._record(scope, status, time.perf_counter() - started_at)

    def _record(self, scope: Scope, status: int | None, duration_s: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        if not scope.get("state", {}).get("is_stream"):  # a stream lasts as long as its reader stays
            self._durations_s.labels(scope["method"], route, str(status)).observe(duration_s)
        if not _is_unlogged(scope["path"], status):
            duration_ms = round(duration_s * 1000, 1)
            _log.info("request", method=scope["method"], path=scope["path"], status=status, duration_ms=duration_ms)


def _is_unlogged(path: str, status: int | None) -> bool:
    """Whether a log line for this request would be noise: unchanged polls come thousands a second."""
    is_routine = path in _UNLOGGED or path.startswith(_PAGE_ASSETS)  # a page loads a dozen of these
    return status == 304 or (status == 200 and is_routine)


def _with_own_headers(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """An answer's headers, with the request's id and with the security headers that the route did not set."""
    route_headers = list(headers)
    names = {name.lower() for name, _ in route_headers}
    security = [header for header in _SECURITY_HEADERS if header[0] not in names]
    return [*route_headers, *security, (b"x-request-id", request_id.encode())]


class HeadAsGet:
    """Answers HEAD as GET without the body: RFC 9110 wants HEAD wherever there is GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        # Files of jobs have HEAD routes of their own. A HEAD of a login link must not use it up.
        if (
            scope["type"] != "http"
            or scope["method"] != "HEAD"
            or _FILE_PATH.match(scope["path"])
            or scope["path"] == "/login"
        ):
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})  # ends streams as well

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send_head)
        finally:
            scope["route"] = as_get.get("route")  # requests are counted by route


class Compression(GZipMiddleware):
    """Compresses large answers with gzip for clients that accept it, except event streams and files of jobs.

    Such a file has a strong tag: a range of its bytes that is requested later must fit what came before.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        is_file = scope["type"] == "http" and _FILE_PATH.match(scope["path"]) is not None
        await (self.app(scope, receive, send) if is_file else super().__call__(scope, receive, send))


class BodyLimit:
    """Refuses a body of more than `limit` bytes, by its Content-Length or while it arrives.

    A piece of an upload may be larger: its route does not keep it in memory.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http":
            is_piece = scope["method"] == "PUT" and _UPLOAD_PATH.fullmatch(scope["path"]) is not None
            limit = CHUNK_BYTES if is_piece else self._limit
            length = Headers(scope=scope).get("content-length", "")
            if length.isdecimal() and int(length[:20]) > limit:
                raise BodyTooLarge(limit)
            receive = self._counting_receive(receive, limit)
        await self._app(scope, receive, send)

    def _counting_receive(self, receive: Receive, limit: int) -> Callable[[], Awaitable[Message]]:
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise BodyTooLarge(limit)
            return message

        return receive_counted
