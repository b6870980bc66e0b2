"""Requests of workers to foreign addresses: where they go, where they never go, and when they end."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest

from jobs.outward.webhooks.retries import Answer
from jobs.runtime.outbound_addresses import Address, Allowed, allowed_from
from tests.certificates import self_signed
from tests.receivers import Receiver, receiving
from tests.waiting import slowdown
from worker.outward import http
from worker.outward.http import Outbound

LOOPBACK = allowed_from("127.0.0.1")
NOBODY = Allowed()


def post(url: str, allowed: Allowed = LOOPBACK, *, limit_s: float = 120.0) -> Answer:
    return Outbound(allowed, limit_s=limit_s).post(url, {"Hora-Event": "ping"}, b"{}")


def test_a_message_arrives_unchanged(receiver: Receiver) -> None:
    receiver.answers = lambda _: (503, {"Retry-After": "7"}, b"busy")
    assert post(f"{receiver.url}/hooks?a=b") == Answer(503, retry_after="7", text="busy")
    (received,) = receiver.received
    assert (received.path, received.body) == ("/hooks?a=b", b"{}")
    assert received.headers["hora-event"] == "ping"
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"


class Resolver:
    """Answers with each list of addresses in turn, then always with the last. Records its lookups."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = [[ip_address(text) for text in answer] for answer in answers]
        self.lookups: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.lookups.append((host, port))
        return self._answers[min(len(self.lookups), len(self._answers)) - 1]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Where connections are opened to; those to the internet are refused on the spot."""
    addresses: list[tuple[str, int]] = []
    real_create_connection = socket.create_connection

    def record_and_connect(address: tuple[str, int], *args: object, **more: object) -> socket.socket:
        addresses.append(address)
        if not ip_address(address[0]).is_loopback:
            raise ConnectionRefusedError
        return real_create_connection(address, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_connection", record_and_connect)
    return addresses


def test_a_name_is_resolved_once_and_only_checked_addresses_are_connected_to(connected: list[tuple[str, int]]) -> None:
    resolver = Resolver(["8.8.8.8", "1.1.1.1"], ["127.0.0.1"])
    answer = Outbound(NOBODY, resolver=resolver).post("https://rebinding.example.com/", {}, b"")
    assert connected == [("8.8.8.8", 443), ("1.1.1.1", 443)]
    assert resolver.lookups == [("rebinding.example.com", 443)]
    assert (answer.status_code, answer.error, answer.hopeless) == (None, "the connection was refused", False)


@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_an_internal_address_is_not_connected_to(connected: list[tuple[str, int]], inside: str) -> None:
    for addresses in ([inside], ["8.8.8.8", inside]):
        answer = Outbound(NOBODY, resolver=Resolver(addresses)).post("https://example.com/", {}, b"")
        assert answer.hopeless
        assert inside not in (answer.error or "")
    assert post(f"https://{f'[{inside}]' if ':' in inside else inside}/", NOBODY).hopeless
    assert connected == []


def test_an_allowed_name_may_resolve_to_an_internal_address(receiver: Receiver) -> None:
    sender = Outbound(allowed_from("ci.internal"), resolver=Resolver(["127.0.0.1"]))
    assert sender.post(f"http://ci.internal:{receiver.port}/x", {}, b"").status_code == 204
    assert receiver.received[0].headers["host"] == f"ci.internal:{receiver.port}"
    assert ip_address("127.0.0.1") in http.resolve("localhost", 443)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answers = lambda _: (status, {"Location": f"{receiver.url}/secret"}, b"")
    answer = post(receiver.url)
    assert (answer.status_code, "not followed" in (answer.error or "")) == (status, True)
    assert len(receiver.received) == 1


def test_no_proxy_of_the_environment_is_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert post(receiver.url).status_code == 204
        assert (len(receiver.received), proxy.received) == (1, [])


@contextmanager
def talking(say: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does to each connection what `say` does, in a thread of its own, and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        say(connection)
                    except OSError:  # it was given up, as it should be
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"400\r\n" + 1024 * b"x" + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", 1024 * b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"a: " + 1021 * b"x" + b"\r\n"),
    ],
    ids=["chunks", "length", "headers"],
)
def test_an_endless_answer_is_cut(head: bytes, line: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(line)

    with talking(say) as url:
        assert post(url) == Answer(None, "the answer has more than 64 KB")


@pytest.mark.parametrize("started", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_comes_a_byte_at_a_time_is_given_up(started: bytes) -> None:
    stopped = threading.Event()

    def say(connection: socket.socket) -> None:
        connection.sendall(started)
        while not stopped.wait(0.05):
            connection.sendall(b"H")

    with talking(say) as url:
        began = time.monotonic()
        answer = post(url, limit_s=0.3)
        took_s = time.monotonic() - began
        stopped.set()
    assert answer == Answer(None, "there was no complete answer within 0.3 s")
    assert took_s < 10 * slowdown()  # and not for as long as bytes come


def test_an_unreachable_receiver_gives_an_answer_with_an_error(receiver: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert post(f"http://127.0.0.1:{port}/") == Answer(None, "the connection was refused")
    nameless = Outbound(NOBODY).post("https://hora.invalid/secret", {}, b"")
    assert nameless == Answer(None, "its name cannot be resolved")
    with talking(lambda connection: connection.sendall(b"no http\r\n\r\n")) as url:
        assert post(url) == Answer(None, "the connection broke, or the answer is not HTTP")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of hooks.example.com, with its key."""
    return self_signed(tmp_path_factory.mktemp("tls"), "DNS:hooks.example.com")


@pytest.fixture
def over_tls(certificate: Path) -> Iterator[Receiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with receiving(tls=context) as receiver:
        yield receiver


def test_tls_checks_the_name_although_the_address_is_pinned(over_tls: Receiver, certificate: Path) -> None:
    trust = ssl.create_default_context(cafile=certificate.with_suffix(".crt"))

    def post_over_tls(name: str, trust: ssl.SSLContext | None) -> Answer:
        sender = Outbound(LOOPBACK, resolver=Resolver(["127.0.0.1"]), trust=trust)
        return sender.post(f"https://{name}:{over_tls.port}/x", {}, b"{}")

    assert post_over_tls("hooks.example.com", trust) == Answer(204)
    assert over_tls.received[0].headers["host"] == f"hooks.example.com:{over_tls.port}"
    for answer in (post_over_tls("other.example.com", trust), post_over_tls("hooks.example.com", None)):
        assert answer.status_code is None
        assert (answer.error or "").startswith("its certificate is not trusted")
    assert len(over_tls.received) == 1
