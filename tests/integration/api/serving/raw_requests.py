"""Requests as bytes, and parts of them. For the tests on raw sockets."""

from tests.integration.api.starting_rows import TOKEN
from tests.raw_http import RawConnection

HOST = b"Host: hora\r\n"
AUTHORIZATION = f"Authorization: Bearer {TOKEN}\r\n".encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"  # the last header

HEAD = b"GET /healthz HTTP/1.1\r\n" + HOST  # further headers may follow
GET = HEAD + b"\r\n"
POST = b"POST /v1/jobs HTTP/1.1\r\n" + HOST
POST_JSON = POST + AUTHORIZATION + b"Content-Type: application/json\r\n"


def is_answered(connection: RawConnection) -> bool:
    """Whether a good request on this connection gets its answer."""
    connection.send(GET)
    return connection.answer().status == 200
