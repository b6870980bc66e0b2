"""HTTP requests to addresses that users chose. Used by the notifier for webhooks.

A name is resolved once, here. Every address that results is checked (`jobs.runtime.outbound_addresses`), and the
connection goes to one of those, however the name resolves a moment later. TLS still checks the name. Redirects and
proxies of the environment are ignored. Time and size of a whole exchange are limited, so a receiver that sends a byte
now and then holds nobody up.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, cast

import httpcore2 as httpcore

from jobs.outward.webhooks.retries import Answer
from jobs.runtime.outbound_addresses import Address, Allowed, ForbiddenAddress, checked, target_of

Resolve = Callable[[str, int], Sequence[Address]]

_MAX_BYTES = 64 * 1024  # of a whole answer with its headers
_READ_BYTES = 1024  # of its text: chats say there what went wrong


class _TooLate(Exception):
    """The exchange took longer than it may."""


class _TooLarge(Exception):
    """The answer has more bytes than allowed."""


def resolve(host: str, port: int) -> Sequence[Address]:
    """All addresses of a host. Raises `OSError`."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(entry[4][0]) for entry in dict.fromkeys(entries)]


class Outbound:
    """Posts to webhooks. Any number of threads may use it."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        limit_s: float = 10.0,
        resolver: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._limit_s = limit_s
        self._resolve = resolver
        self._trust = trust or httpcore.default_ssl_context()

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send, and return the result. Raises nothing. No text in the result names the address."""
        try:
            status, retry_after, text = self._exchange(url, headers, body)
        except ForbiddenAddress as error:
            return Answer(None, str(error), hopeless=True)
        except (_TooLate, httpcore.TimeoutException):
            return Answer(None, f"there was no complete answer within {self._limit_s:g} s")
        except _TooLarge:
            return Answer(None, f"the answer has more than {_MAX_BYTES // 1024} KB")
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError) as error:
            return Answer(None, _describe_failure(error))
        if 300 <= status < 400:
            return Answer(status, f"the answer was {status}: redirects are not followed, use the final address")
        return Answer(status, retry_after=retry_after, text=text)

    def _exchange(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str | None, str]:
        target = target_of(url, self._allowed)
        deadline = time.monotonic() + self._limit_s
        backend = _PinnedBackend(self._allowed, self._resolve, deadline)
        default_port = {"https": 443, "http": 80}[target.scheme]
        name = f"[{target.host}]" if ":" in target.host else target.host
        host = name if target.port == default_port else f"{name}:{target.port}"
        with httpcore.ConnectionPool(ssl_context=self._trust, network_backend=backend, retries=0) as pool:
            url_parts = httpcore.URL(
                scheme=target.scheme, host=target.host, port=target.port, target=target.target.encode()
            )
            header_fields = {**headers, "Host": host, "Connection": "close", "Content-Length": str(len(body))}
            with pool.stream("POST", url_parts, headers=list(header_fields.items()), content=body) as answer:
                # Read to the end, within the limits: a receiver that is cut off may take that for a failure.
                content = b"".join(answer.iter_stream())
        answer_headers = {name.lower(): value for name, value in answer.headers}
        retry_after = answer_headers.get(b"retry-after")
        text = content[:_READ_BYTES].decode(errors="replace")
        return answer.status, None if retry_after is None else retry_after.decode("latin-1")[:100], text


def _describe_failure(error: Exception) -> str:
    """What went wrong, in a few words of our own: text of the receiver is not passed on."""
    match error.args[0] if error.args and isinstance(error, httpcore.NetworkError) else error:  # it wraps another's
        case ssl.SSLCertVerificationError() as cause:
            return f"its certificate is not trusted: {cause.verify_message}"
        case ssl.SSLError():
            return "a TLS connection is not possible"
        case ConnectionRefusedError():
            return "the connection was refused"
        case socket.gaierror():
            return "its name cannot be resolved"
        case _:
            return "the connection broke, or the answer is not HTTP"


class _PinnedBackend(httpcore.NetworkBackend):
    """Connects to an address of the name, after all its addresses were checked."""

    def __init__(self, allowed: Allowed, resolver: Resolve, deadline: float) -> None:
        self._allowed = allowed
        self._resolve = resolver
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Open a connection to the first address that takes one. Raises `ForbiddenAddress`."""
        addresses = self._resolve(host, port)
        if host not in self._allowed.hosts:
            checked(addresses, self._allowed)
        connect_error: Exception = httpcore.ConnectError("the name has no address")
        for address in addresses:
            try:
                stream = self._sockets.connect_tcp(str(address), port, _left_s(self._deadline))
            except httpcore.ConnectError as error:
                connect_error = error
                continue
            return _BoundedStream(stream, self._deadline)
        raise connect_error


class _BoundedStream(httpcore.NetworkStream):
    """A connection that ends at its deadline, or after so many bytes."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline
        self._left_bytes = _MAX_BYTES

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some. Raises `_TooLate`, `_TooLarge`."""
        piece = self._stream.read(max_bytes, _left_s(self._deadline))
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            raise _TooLarge
        return piece

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all, or raise `_TooLate`: a piece at a time, since each may take as long as is left."""
        for start in range(0, len(buffer), 16 * 1024):
            self._stream.write(buffer[start : start + 16 * 1024], _left_s(self._deadline))

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Continue in TLS, within the same limits."""
        return _BoundedStream(
            self._stream.start_tls(ssl_context, server_hostname, _left_s(self._deadline)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        """What the connection itself returns."""
        return cast("Any", self._stream.get_extra_info(info))


def _left_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _TooLate
    return left
