"""Clients that stop in the middle: of headers, of a body, or of reading an answer. And clients that are only slow."""

import json
import time
from contextlib import suppress

import psutil
import pytest

from api.access.turns import AT_ONCE
from api.live import response
from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people.tokens import store_token
from tests.integration.api.serving.conftest import Connect, Serve
from tests.integration.api.serving.raw_requests import AUTHORIZATION, CHUNKED, HEAD, HOST, POST_JSON, is_answered
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.integration.live.reading import lines
from tests.waiting import until

LARGE = b"Content-Length: 100000\r\n\r\n"  # the last header
PAGE = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"


def clients_of(port: int) -> set[int]:
    """The ports of the clients whose connections the server holds."""
    connections = psutil.Process().net_connections("tcp")
    return {each.raddr.port for each in connections if each.laddr.port == port and each.raddr}


@pytest.mark.parametrize("begin", [b"G", HEAD, HEAD + b"Name: ", b"\r\n"])
def test_half_a_head_is_refused_after_a_time(serve: Serve, connect: Connect, begin: bytes) -> None:
    port = serve(headers_timeout_s=1)
    first, later = connect(port), connect(port)
    assert is_answered(later)
    for connection in (first, later):
        connection.send(begin)
    for connection in (first, later):
        answer = connection.answer()
        assert (answer.status, answer.document["type"]) == (408, "urn:hora:problem:request-timeout")
        assert connection.is_closed()


def test_a_head_that_grows_slowly_has_no_more_time(serve: Serve, connect: Connect) -> None:
    connection = connect(serve(headers_timeout_s=1))
    connection.send(HEAD)
    began_at = time.monotonic()
    connection.socket.settimeout(0.2)
    while time.monotonic() - began_at < 60:
        connection.send(b"Name: value\r\n")
        try:
            received = connection.socket.recv(12)
        except TimeoutError:
            continue
        assert received == b"HTTP/1.1 408"
        return
    raise AssertionError("it was never refused")


def test_a_connection_that_sends_nothing_is_closed(serve: Serve, connect: Connect) -> None:
    assert connect(serve(headers_timeout_s=1)).is_closed()


def test_many_half_requests_are_ended_and_others_are_answered(serve: Serve, connect: Connect) -> None:
    port = serve(headers_timeout_s=2)
    half = [connect(port) for _ in range(300)]
    for connection in half:
        connection.send(HEAD)
    other = connect(port)
    assert is_answered(other)
    assert {connection.answer().status for connection in half} <= {408}
    until(lambda: clients_of(port) <= {other.port}, what="the end of the connections")


@pytest.mark.parametrize("framing", [LARGE, CHUNKED], ids=["length", "chunked"])
def test_a_body_that_stops_is_refused_after_a_time(serve: Serve, connect: Connect, framing: bytes) -> None:
    connection = connect(serve(transfer_timeout_s=1))
    connection.send(POST_JSON + framing)
    connection.send(b"1")
    answer = connection.answer()
    assert (answer.status, answer.document["type"]) == (408, "urn:hora:problem:request-timeout")
    assert connection.is_closed()


def test_a_slow_body_that_goes_on_is_read(serve: Serve, connect: Connect) -> None:
    connection = connect(serve(transfer_timeout_s=2))
    connection.send(POST_JSON + LARGE)
    began_at, sent_bytes = time.monotonic(), 0
    while time.monotonic() - began_at < 5:
        sent_bytes += connection.send(b" " * 1000)
        time.sleep(0.1)
    connection.send(b" " * (100_000 - sent_bytes))
    assert connection.answer().status == 422


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


def test_the_rest_of_a_body_that_nobody_reads_has_a_time_too(serve: Serve, connect: Connect) -> None:
    connection = connect(serve(headers_timeout_s=1))
    connection.send(HEAD + LARGE)
    assert connection.answer().status == 200
    until(lambda: connection.send(b" ") == 0, what="the end of the connection", within_s=60)


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


def test_an_answer_that_is_fetched_slowly_arrives(serve: Serve, connect: Connect) -> None:
    connection = connect(serve(transfer_timeout_s=1), receives=4096)
    connection.send(PAGE * 30)
    began_at, received_bytes = time.monotonic(), 0
    while time.monotonic() - began_at < 5:
        received_bytes += len(connection.socket.recv(2000))
        time.sleep(0.02)
    assert received_bytes > 5 * 500


def test_a_live_stream_that_nobody_reads_is_dropped(
    serve: Serve, connect: Connect, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response, "SEND_TIMEOUT_S", 0.2)
    port = serve(transfer_timeout_s=1)
    submission, stuck = connect(port), connect(port, receives=4096)
    body = json.dumps(SPEC).encode()
    submission.send(POST_JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    job_id = submission.answer().document["id"]
    with sessions.begin() as session:
        lines(session, job_id, ["x" * 1000] * 10_000)
    events = f"GET /v1/jobs/{job_id}/events?include=logs HTTP/1.1\r\n".encode()
    stuck.send(events + HOST + AUTHORIZATION + b"Accept: text/event-stream\r\n\r\n")
    assert stuck.socket.recv(12) == b"HTTP/1.1 200"
    until(lambda: stuck.port not in clients_of(port), what="the end of the connection")
