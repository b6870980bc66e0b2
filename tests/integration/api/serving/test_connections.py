"""The number of open connections: of one address, and of all. Loopback is a trusted proxy, 127.0.0.2 is not."""

from contextlib import suppress

import pytest

from tests.integration.api.serving.conftest import Connect, Serve
from tests.integration.api.serving.raw_requests import AUTHORIZATION, GET, HOST, is_answered
from tests.raw_http import RawConnection
from tests.waiting import until

STRANGER = "127.0.0.2"


@pytest.mark.parametrize(("proxy", "address"), [("127.0.0.1", STRANGER), (STRANGER, "127.0.0.1")])
def test_an_address_has_so_many_connections_and_others_and_a_trusted_proxy_have_theirs(
    serve: Serve, connect: Connect, proxy: str, address: str
) -> None:
    port = serve(connections_per_address=10, forwarded_allow_ips=proxy)
    kept = [connect(port, source=address) for _ in range(10)]
    assert all(is_answered(connection) for connection in kept)
    refused = connect(port, source=address)
    refused.send(GET)
    answer = refused.answer()
    assert (answer.status, answer.document["type"]) == (429, "urn:hora:problem:too-many-connections")
    assert int(answer.headers["retry-after"]) > 0
    assert refused.is_closed()
    assert is_answered(connect(port, source="127.0.0.3"))
    assert all(is_answered(connect(port, source=proxy)) for _ in range(20))
    kept.pop().close()

    def is_let_in() -> bool:
        with RawConnection(port, source=address) as connection:
            return is_answered(connection)

    until(is_let_in, what="a connection in place of the closed one")


def test_all_addresses_together_have_a_limit_and_many_are_cut_without_an_answer(
    serve: Serve, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    port = serve(connections=10)
    kept = [connect(port) for _ in range(10)]
    assert all(is_answered(connection) for connection in kept)
    answer = connect(port).answer()
    assert (answer.status, answer.document["type"]) == (503, "urn:hora:problem:too-many-connections")
    refused = [connect(port) for _ in range(300)]
    assert all(is_answered(connection) for connection in kept)
    answered = 0
    for connection in refused:
        with suppress(EOFError):
            answered += connection.answer().status == 503
    assert 0 < answered < 300
    until(lambda: "connections refused" in capsys.readouterr().out, what="a line of the log")


def test_hundreds_of_live_streams_stay_open(serve: Serve, connect: Connect) -> None:
    port = serve(headers_timeout_s=1, transfer_timeout_s=1)
    headers = HOST + AUTHORIZATION + b"Accept: text/event-stream\r\n\r\n"
    other = connect(port)
    other.send(b"GET /v1/jobs HTTP/1.1\r\n" + headers)  # a token that is not known yet counts as a wrong one
    assert other.answer().status == 200
    streams = []
    for _ in range(200):
        streams.append(stream := connect(port))
        stream.send(b"GET /v1/events HTTP/1.1\r\n" + headers)
    for stream in streams:
        assert stream.socket.recv(12) == b"HTTP/1.1 200"
    idle = connect(port)
    assert idle.is_closed(), "after the time limits"
    for stream in streams:
        stream.socket.setblocking(False)
        assert b"retry: " in stream.socket.recv(100_000)
        with pytest.raises(BlockingIOError):  # it is still open
            stream.socket.recv(1)
