"""Clients that stop in the middle: of headers, of a body, or of reading an answer. And clients that are only slow.

`tests/unit/api/serving/test_connections.py` says how long each wait may last.
"""

import time
from contextlib import suppress

import psutil

from api.access.turns import AT_ONCE
from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people.tokens import store_token
from tests.integration.api.serving.conftest import Connect, Serve
from tests.integration.api.serving.raw_requests import AUTHORIZATION, CHUNKED, HEAD, HOST, POST_JSON, is_answered
from tests.integration.api.starting_rows import TOKEN
from tests.raw_http import RawConnection
from tests.waiting import until

LARGE = b"Content-Length: 100000\r\n\r\n"  # the last header
PAGE = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"


def clients_of(port: int) -> set[int]:
    """The ports of the clients whose connections the server holds."""
    connections = psutil.Process().net_connections("tcp")
    return {each.raddr.port for each in connections if each.laddr.port == port and each.raddr}


def test_a_request_that_stops_in_the_middle_is_refused_after_a_time(serve: Serve, connect: Connect) -> None:
    port = serve(headers_timeout_s=1, transfer_timeout_s=1)
    halves = [(b"G",), (HEAD,), (HEAD + b"Name: ",), (b"\r\n",), (POST_JSON + LARGE, b"1"), (POST_JSON + CHUNKED, b"1")]
    silent, unread, later = connect(port), connect(port), connect(port)
    stopped = [later, *(connect(port) for _ in halves)]
    assert is_answered(later)
    for connection, half in zip(stopped, (halves[0], *halves), strict=True):
        connection.send(*half)
    unread.send(HEAD + LARGE)
    for connection in stopped:
        answer = connection.answer()
        assert (answer.status, answer.document["type"]) == (408, "urn:hora:problem:request-timeout")
        assert connection.is_closed()
    assert silent.is_closed()
    assert unread.answer().status == 200
    until(lambda: unread.send(b" ") == 0, what="the end of a connection whose body nobody reads", within_s=60)
    assert is_refused_while_it_grows(connect(port))


def is_refused_while_it_grows(connection: RawConnection) -> bool:
    """Whether a head to which something is added again and again is refused."""
    connection.send(HEAD)
    began_at = time.monotonic()
    connection.socket.settimeout(0.2)
    while time.monotonic() - began_at < 60:
        connection.send(b"Name: value\r\n")
        try:
            return connection.socket.recv(12) == b"HTTP/1.1 408"
        except TimeoutError:
            continue
    return False


def test_a_slow_body_that_goes_on_is_read_and_an_answer_that_is_fetched_slowly_arrives(
    serve: Serve, connect: Connect
) -> None:
    port = serve(transfer_timeout_s=2)
    sender, reader = connect(port), connect(port, receives=4096)
    sender.send(POST_JSON + LARGE)
    reader.send(PAGE * 30)
    began_at, sent_bytes = time.monotonic(), 0
    while time.monotonic() - began_at < 5:
        sent_bytes += sender.send(b" " * 200)
        assert len(reader.socket.recv(2000)) > 0
        time.sleep(0.02)
    sender.send(b" " * (100_000 - sent_bytes))
    assert sender.answer().status == 422


def test_a_slow_body_keeps_no_turn_from_others(serve: Serve, connect: Connect, sessions: Sessions) -> None:
    port = serve()
    slow = [connect(port) for _ in range(AT_ONCE)]
    with sessions.begin() as session:
        for number in range(AT_ONCE):
            store_token(session, f"hora_slow-{number}", user=f"slow-{number}", scope=Scope.SUBMIT)
    for number, connection in enumerate(slow):
        dry_run = POST_JSON.replace(b"/v1/jobs", b"/v1/studies?dry_run=true")
        head = dry_run.replace(TOKEN.encode(), b"hora_slow-%d" % number)
        connection.send(head + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert connection.answer().status == 100, "the api waits for the body"
    other = connect(port)
    other.send(b"GET /v1/studies HTTP/1.1\r\n" + HOST + AUTHORIZATION + b"\r\n")
    assert other.answer().status == 200
    for connection in slow:
        connection.send(b"{}")
        assert connection.answer().status == 422


def test_an_answer_that_nobody_fetches_is_dropped(serve: Serve, connect: Connect) -> None:
    port = serve(transfer_timeout_s=2)
    reader, connection = connect(port), connect(port, receives=4096)
    reader.send(PAGE)
    answer_bytes = len(reader.answer().body)
    connection.send(PAGE * 30)
    until(lambda: connection.port not in clients_of(port), what="the end of the connection")
    received_bytes = 0
    with suppress(ConnectionError):
        while piece := connection.socket.recv(65536):
            received_bytes += len(piece)
    assert received_bytes < 30 * answer_bytes
