"""A receiver of webhooks on loopback: a real server in a thread. It keeps the requests, and a test sets the answers."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Received:
    """A received request."""

    path: str
    headers: dict[str, str]  # names in small letters
    body: bytes


@dataclass
class Receiver:
    """The requests so far, and a function that gives the answer to each."""

    url: str
    port: int
    received: list[Received] = field(default_factory=list)
    answers: Callable[[Received], tuple[int, dict[str, str], bytes]] = lambda _: (204, {}, b"")


@contextmanager
def receiving(*, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Listen on a free port of 127.0.0.1 until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if tls is None else "https"
    receiver = Receiver(f"{scheme}://127.0.0.1:{server.server_port}", server.server_port)
    server.receiver = receiver  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Print nothing: in some tests the sender breaks off on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        receiver: Receiver = self.server.receiver  # type: ignore[attr-defined]
        receiver.received.append(received)
        status, headers, content = receiver.answers(received)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing: the tests check the requests."""
