"""Headers, targets, trailers and extensions of chunks: large ones are refused before they are read."""

import json
import time

from tests.integration.api.serving.conftest import Connect
from tests.integration.api.serving.raw_requests import (
    AUTHORIZATION,
    CHUNKED,
    GET,
    HEAD,
    POST,
    POST_JSON,
    is_answered,
)
from tests.waiting import slowdown

MB = 1_000_000
LETTERS = b"a" * MB
HEADERS = b"".join(b"name-%d: value\r\n" % number for number in range(50_000))
ATTACKS = {  # the body of a POST is waited for only if its token may submit
    "one header": (HEAD + b"Name: ", LETTERS),
    "many headers": (HEAD, HEADERS),
    "name": (HEAD, LETTERS),
    "target": (b"GET /", LETTERS),
    "method": (b"", b"GET" * MB),
    "empty lines": (b"", b"\r\n" * MB),
    "trailers": (POST_JSON + CHUNKED + b"0\r\n", HEADERS),
    "one trailer": (POST_JSON + CHUNKED + b"0\r\nName: ", LETTERS),
    "extension": (POST_JSON + CHUNKED + b"1;name=", LETTERS),
    "extensions": (POST_JSON + CHUNKED, (b"1;" + b"a" * 1000 + b"\r\n[\r\n") * 1000),
}


def test_a_large_head_is_refused_after_its_first_part(port: int, connect: Connect) -> None:
    for name, (begin, repeated) in ATTACKS.items():
        attacker, other = connect(port), connect(port)
        sent_bytes = attacker.send(begin, *[repeated] * 60)
        assert sent_bytes < 20 * MB, name  # what the kernels of both sides hold, and what lingers
        began_at = time.monotonic()
        assert is_answered(other), name
        assert time.monotonic() - began_at < 2 * slowdown(), name
        answer = attacker.answer()
        assert answer.status == answer.document["status"] == (400 if name == "method" else 431), name
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        assert attacker.is_closed(), name


def test_headers_below_the_limit_are_accepted(port: int, connect: Connect) -> None:
    connection = connect(port)
    for large in (b"Name: " + b"a" * 60_000 + b"\r\n", b"".join(b"name-%d: value\r\n" % i for i in range(3000))):
        connection.send(HEAD + large + b"\r\n")
        assert connection.answer().status == 200
    connection.send(HEAD + b"Name: " + b"a" * 65_536 + b"\r\n\r\n")
    answer = connection.answer()
    assert (answer.status, answer.document["type"]) == (431, "urn:hora:problem:headers-too-large")
    assert "65536 bytes" in answer.document["detail"]
    assert connection.is_closed()


def test_the_limit_is_of_one_request_also_if_several_are_sent_at_once(port: int, connect: Connect) -> None:
    connection = connect(port)
    request = HEAD + b"Name: " + b"a" * 40_000 + b"\r\n\r\n"
    connection.send(request * 6)
    assert [connection.answer().status for _ in range(6)] == [200] * 6
    connection.send(request * 2 + HEAD + b"Name: " + b"a" * 70_000 + b"\r\n\r\n" + request)
    assert [connection.answer().status for _ in range(2)] == [200] * 2
    assert connection.is_closed()


def test_a_head_in_small_pieces_is_read_and_a_body_of_small_chunks_is_no_large_head(
    port: int, connect: Connect
) -> None:
    connection = connect(port)
    connection.send(*(GET[start : start + 1] for start in range(len(GET))))
    assert connection.answer().status == 200
    body = json.dumps({"no such field": "x" * 30_000}).encode()
    connection.send(POST_JSON + CHUNKED, b"".join(b"0001\r\n%c\r\n" % letter for letter in body), b"0\r\n\r\n")
    assert connection.answer().status == 422


def test_trailers_do_not_pass_for_headers(port: int, connect: Connect) -> None:
    connection = connect(port)
    head = POST + b"Content-Type: application/json\r\n" + CHUNKED
    connection.send(head + b"2\r\n{}\r\n0\r\n" + AUTHORIZATION + b"\r\n")
    assert connection.answer().status == 401
    assert is_answered(connection)
