"""Answers that the server gives by itself, before the app has a request. Written by `api.serving.protocol`."""

import json
from collections.abc import Iterable

from api.problems import MEDIA_TYPE, RETRY_AFTER_S, Problem

_TITLES = {  # of the answers by status: a request was refused, or the whole connection
    400: b"Bad Request",
    408: b"Request Timeout",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Malformed(Problem):
    """What arrived is not HTTP."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(400, "malformed-request", "Malformed request", detail)


class TooSlow(Problem):
    """The request did not arrive in time."""

    def __init__(self, detail: str) -> None:
        super().__init__(408, "request-timeout", "Request timeout", detail)


class HeadersTooLarge(Problem):
    """The request line, headers, trailers and extensions of chunks have too many bytes together."""

    def __init__(self, limit: int) -> None:
        detail = f"the request line and all headers may have {limit} bytes together"
        super().__init__(431, "headers-too-large", "Headers too large", detail)


class TooManyConnections(Problem):
    """The address, or the server, has as many connections open as allowed."""

    def __init__(self, status: int, detail: str) -> None:
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        super().__init__(status, "too-many-connections", "Too many connections", detail, headers=headers)


def answer_of(problem: Problem, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The whole answer, as bytes. The connection is closed after it."""
    document = {
        "type": f"urn:hora:problem:{problem.slug}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    body = json.dumps(document).encode()
    headers = [
        *default_headers,
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    lines = [b"HTTP/1.1 %d %s" % (problem.status, _TITLES[problem.status]), *(b": ".join(header) for header in headers)]
    return b"\r\n".join([*lines, b"", body])
