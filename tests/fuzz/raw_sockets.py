"""Sends damaged HTTP on raw sockets: what no client library can send. Called by `tests.fuzz.run`.

Each damage comes from the seed. The server must answer below 500 or close, in time, and stay ready.
"""

import json
import random
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

_ANSWER_S = 0.1  # how long an answer is waited for before this side closes
_END_S = 30.0  # from then on until the server must have closed
_MOST_FINDINGS = 5
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n")

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class Draft:
    """A request before it is written down."""

    method: bytes
    target: bytes
    headers: tuple[Pair, ...]
    body: bytes = b""
    version: bytes = b"HTTP/1.1"
    line_end: bytes = field(default=b"\r\n")

    def written(self) -> bytes:
        """The bytes of the request."""
        first = b" ".join((self.method, self.target, self.version))
        lines = [first, *(name + b": " + value for name, value in self.headers), b"", self.body]
        return self.line_end.join(lines)


def fuzz_raw_sockets(url: str, token: str, *, seconds: float, seed: int) -> tuple[int, list[str]]:
    """The number of damaged requests that were sent, and a text for each finding."""
    address = urlsplit(url).hostname or "", urlsplit(url).port or 0
    source, number, findings = random.Random(seed), 0, []  # noqa: S311
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and len(findings) < _MOST_FINDINGS:
        number += 1
        request = damaged(source, token)
        finding = _finding(address, request, source)
        if finding is None and number % 50 == 0:
            finding = None if httpx2.get(f"{url}/readyz", timeout=_END_S).is_success else "the api is not ready"
        if finding is not None:
            shown = f"{request[:300]!r} and {max(0, len(request) - 300)} more bytes"
            findings.append(f"raw request {number} of seed {seed}: {finding}\n{shown}")
    return number, findings


def damaged(source: random.Random, token: str) -> bytes:
    """The bytes of one to three requests, of which each may be damaged, at times cut off or with random bytes."""
    drafts = [_draft(source, token) for _ in range(source.choice((1, 1, 1, 2, 3)))]
    written = b"".join(source.choice(_DAMAGES)(source, draft) for draft in drafts)
    if source.random() < 0.3:
        written = _with_random_bytes(source, written)
    if source.random() < 0.3:
        written = written[: source.randrange(len(written) + 1)]
    return written


def _draft(source: random.Random, token: str) -> Draft:
    method, target = source.choice(_OPERATIONS)
    headers = [(b"Host", b"hora"), (b"Authorization", f"Bearer {token}".encode())]
    if method == b"GET":
        return Draft(method, target, tuple(headers))
    body = json.dumps({"dataset": "digits", "gpus": source.randrange(3), "x": "y" * source.randrange(2000)}).encode()
    headers.append((b"Content-Type", b"application/json"))
    if source.random() < 0.5:
        return Draft(method, target, (*headers, (b"Content-Length", b"%d" % len(body))), body)
    return Draft(method, target, (*headers, (b"Transfer-Encoding", b"chunked")), _chunked(source, body))


def _chunked(source: random.Random, body: bytes) -> bytes:
    size, extension = source.randrange(1, 200), source.choice((b"", b"", b";name=value", b' ; a="b"'))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
    return b"".join(chunks) + b"0\r\n" + source.choice((b"", b"Name: value\r\n", b"Content-Length: 3\r\n")) + b"\r\n"


def _with_random_bytes(source: random.Random, written: bytes) -> bytes:
    changed = bytearray(written)
    for _ in range(source.randrange(1, 6)):
        place = source.randrange(len(changed) + 1)
        changed[place : place + source.randrange(3)] = source.choice(_ODD_BYTES) or source.randbytes(2)
    return bytes(changed)


def _with_header(source: random.Random, draft: Draft) -> bytes:
    """Another header, often one that contradicts those that are there, anywhere among them."""
    headers = list(draft.headers)
    headers.insert(source.randrange(len(headers) + 1), source.choice(_HEADERS))
    return replace(draft, headers=tuple(headers)).written()


def _with_large_part(source: random.Random, draft: Draft) -> bytes:
    size = source.choice((8_000, 60_000, 66_000, 300_000))
    large: dict[str, Any] = source.choice((
        {"headers": (*draft.headers, (b"Large", b"v" * size))},
        {"headers": (*draft.headers, (b"n" * size, b"value"))},
        {"headers": (*draft.headers, *[(b"n%d" % number, b"v") for number in range(size // 8)])},
        {"target": draft.target + b"?" + b"q" * size},
        {"method": b"M" * size},
        {"body": draft.body + b"b" * size},
    ))  # fmt: skip
    return replace(draft, **large).written()


_DAMAGES: tuple[Callable[[random.Random, Draft], bytes], ...] = (
    lambda _, draft: draft.written(),
    lambda source, draft: replace(draft, line_end=source.choice((b"\n", b"\r", b"\n\r", b"\r\r\n", b""))).written(),
    lambda source, draft: replace(draft, method=source.choice(_METHODS)).written(),
    lambda source, draft: replace(draft, target=source.choice(_TARGETS)).written(),
    lambda source, draft: replace(draft, version=source.choice(_VERSIONS)).written(),
    _with_header,
    _with_header,
    lambda source, draft: replace(draft, headers=(*draft.headers, source.choice(draft.headers))).written(),
    lambda source, draft: replace(draft, headers=tuple(source.sample(draft.headers, 1))).written(),
    _with_large_part,
)
_OPERATIONS = [
    (b"GET", b"/healthz"), (b"GET", b"/v1/jobs?limit=1"), (b"GET", b"/v1/jobs/none/events"), (b"GET", b"/"),
    (b"GET", b"/v1/events"), (b"POST", b"/v1/jobs"), (b"POST", b"/v1/jobs?dry_run=true"), (b"POST", b"/v1/uploads"),
    (b"PUT", b"/v1/uploads/none/content?offset=0"), (b"DELETE", b"/v1/jobs/none"), (b"PATCH", b"/v1/jobs/none"),
]  # fmt: skip
_METHODS = [
    b"", b"get", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PRI", b"PROPFIND", b"M-SEARCH", b"G\x00T", b"G T",
    b"\xff", b"GET\t", b" GET", b"QUERY", b"SOURCE", b"POST" * 50,
]  # fmt: skip
_TARGETS = [
    b"", b"*", b"x", b"//", b"//elsewhere/x", b"http://elsewhere/healthz", b"https://:99999999/", b"elsewhere:80",
    b"/%", b"/%00", b"/%ff%fe", b"/../../etc/passwd", b"/v1/jobs/%2e%2e/x", b"/\x00", b"/ /", b"/\xe2\x82\xac",
    b"/?%zz", b"/#fragment", b"/v1/jobs?cursor=%00", b"http://[::1/", b"http://", b"/healthz\thttp", b"/" * 5000,
]  # fmt: skip
_VERSIONS = [b"", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b"HTTP/9.9", b"http/1.1", b"HTTP/1.1 "]
_VALUES: dict[bytes, tuple[bytes, ...]] = {
    b"Content-Length": (b"5", b"0", b"-1", b"+5", b"5, 5", b"0x10", b"9" * 30, b""),
    b"Transfer-Encoding": (b"chunked", b"identity", b"gzip, chunked", b"chunked, gzip", b"\x0bchunked", b""),
    b"transfer-encoding ": (b"chunked",),
    b"Host": (b"elsewhere", b"", b"a b"),
    b"Connection": (b"close, keep-alive", b"Upgrade", b"close"),
    b"Upgrade": (b"websocket", b"h2c"),
    b"Expect": (b"100-continue", b"nonsense"),
    b"X-Forwarded-For": (b"nonsense, , 1.2.3.4:x", b"\xff"),
    b"X-Forwarded-Proto": (b"gopher",),
    b"Range": (b"bytes=0-0,-1",),
    b"Accept": (b"text/event-stream",),
    b"Accept-Encoding": (b"gzip;q=x",),
    b"If-None-Match": (b"\xff",),
    b"Last-Event-ID": (b"\xf0",),
    b"Authorization": (b"Bearer \xff",),
    b"Content-Type": (b"x/y;" * 100,),
    b"Cookie": (b";" * 500,),
    b"Trailer": (b"Content-Length",),
    b"Na me": (b"value",),
    b"": (b"value",),
    b"Name": (b"a\r\n b", b"\x00", b"\x7f", b"a\nb", b"a\rb"),
}
_HEADERS = [(name, value) for name, values in _VALUES.items() for value in values]
_ODD_BYTES = [b"\x00", b"\r", b"\n", b"\r\n\r\n", b":", b" ", b"\t", b"\xff", b"", b""]


def _finding(address: tuple[str, int], request: bytes, source: random.Random) -> str | None:
    """What is wrong with how the server handles these bytes, if anything is."""
    received = bytearray()
    with socket.create_connection(address, timeout=_END_S) as connection:
        split = source.randrange(len(request) + 1)
        try:
            connection.sendall(request[:split])
            connection.sendall(request[split:])
            connection.settimeout(_ANSWER_S)
            with suppress(TimeoutError):
                _receive(connection, received)
            connection.settimeout(_END_S)
            connection.shutdown(socket.SHUT_WR)
            _receive(connection, received)
        except TimeoutError:
            return f"the connection is open after {_END_S:g} s; it was answered with {bytes(received[:300])!r}"
        except OSError:  # the server closed it before it had read everything
            pass
    return _wrong_answer(bytes(received))


def _receive(connection: socket.socket, received: bytearray) -> None:
    while piece := connection.recv(65536):
        received += piece


def _wrong_answer(received: bytes) -> str | None:
    """What is wrong with the first answer, which may be cut off. Others may follow."""
    received = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    if not received:
        return None
    status = _STATUS.match(received)
    if status is None:
        return f"the answer is not HTTP: {received[:300]!r}"
    return f"the status is {int(status[1])}: {received[:600]!r}" if int(status[1]) >= 500 else None
