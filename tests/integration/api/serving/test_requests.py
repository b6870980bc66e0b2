"""HTTP/1.1 on one connection: several requests, bodies of both kinds, requests that are no HTTP, and large heads."""

import json
import time
from contextlib import suppress

from structlog.testing import capture_logs

from api.middleware import CHUNK_BYTES
from api.serving.protocol import MAX_PIPELINED
from tests.integration.api.serving.conftest import Connect
from tests.integration.api.serving.raw_requests import (
    AUTHORIZATION,
    CHUNKED,
    GET,
    HEAD,
    HOST,
    POST,
    POST_JSON,
    is_answered,
)
from tests.waiting import slowdown, until

AUTHORIZED = HOST + AUTHORIZATION


def test_answers_come_in_the_order_of_the_requests(port: int, connect: Connect) -> None:
    connection = connect(port)
    targets = [b"/healthz" if number % 3 else b"/v1/jobs/none%d" % number for number in range(MAX_PIPELINED)]
    connection.send(b"".join(b"GET " + target + b" HTTP/1.1\r\n" + AUTHORIZED + b"\r\n" for target in targets))
    answers = [connection.answer() for _ in targets]
    assert [answer.status for answer in answers] == [200 if number % 3 else 404 for number in range(len(targets))]
    assert answers[3].document["instance"] == "/v1/jobs/none3"
    assert is_answered(connection)


def test_requests_that_pile_up_are_not_read(port: int, connect: Connect) -> None:
    connection, other = connect(port), connect(port)
    connection.send(GET * 200)
    answers = 0
    with suppress(EOFError):
        while connection.answer().status == 200:
            answers += 1
    assert answers <= MAX_PIPELINED + 1
    assert is_answered(other)


def test_a_broken_request_does_not_take_the_answer_of_the_one_before(port: int, connect: Connect) -> None:
    connection = connect(port)
    connection.send(b"GET /v1/jobs HTTP/1.1\r\n" + AUTHORIZED + b"\r\nnonsense\r\n\r\n")
    assert connection.answer().status == 200
    assert connection.is_closed()


def test_a_request_for_another_protocol_is_answered_in_this_one(port: int, connect: Connect) -> None:
    for upgrade in (b"websocket", b"h2c"):
        connection = connect(port)
        wish = b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nUpgrade: " + upgrade + b"\r\n\r\n"
        connection.send(HEAD + wish + GET)
        assert [connection.answer().status for _ in range(2)] == [200, 200]
        assert is_answered(connection)


def test_a_refused_body_is_not_asked_for_any_more(port: int, connect: Connect) -> None:
    connection = connect(port)
    with capture_logs() as entries:
        connection.send(POST_JSON + b"Expect: 100-continue\r\n" + CHUNKED + b"no length of a chunk\r\n")
        assert connection.answer().status == 400
        (entry,) = until(lambda: [entry for entry in entries if entry["event"] == "request"], what="the app's end")
    assert entry["status"] == 400


def test_the_largest_pieces_of_an_upload_are_stored(port: int, connect: Connect) -> None:
    connection = connect(port)
    body = json.dumps({"filename": "a.zip", "size_bytes": 2 * CHUNK_BYTES}).encode()
    length = b"Content-Length: %d\r\n\r\n"
    connection.send(POST_JSON.replace(b"/v1/jobs", b"/v1/uploads") + length % len(body) + body)
    upload_id = connection.answer().document["id"]
    piece = bytes(CHUNK_BYTES)
    with_length = [length % len(piece), piece]
    in_chunks = [CHUNKED, *[b"10000\r\n" + piece[:65536] + b"\r\n"] * 256, b"0\r\n\r\n"]
    for number, framed in enumerate((with_length, in_chunks)):
        path = f"/v1/uploads/{upload_id}/content?offset={number * CHUNK_BYTES}"
        put = f"PUT {path} HTTP/1.1\r\nContent-Type: application/octet-stream\r\n"
        connection.send(put.encode() + AUTHORIZED, *framed)
        answer = connection.answer()
        assert (answer.status, answer.document["received_bytes"]) == (200, (number + 1) * CHUNK_BYTES)


AMBIGUOUS = [
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    HEAD + b"Name: \x00\r\n\r\n",
    HEAD + b"Name: a\r\n continued\r\n\r\n",
    b"GET /healthz HTTP/1.1\n" + HOST + b"\n",
    b"GET http:// HTTP/1.1\r\n" + HOST + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    POST + b"Transfer-Encoding: chunked, identity\r\n\r\n",
    POST + b"Transfer-Encoding: xchunked\r\n\r\n",
    POST + b"Content-Length: +5\r\n\r\n",
    POST + b"Transfer-Encoding : chunked\r\n\r\n",
    POST + CHUNKED + b"x\r\n\r\n",
    POST + CHUNKED + b"1\nx\n0\n\n",
    POST + CHUNKED + b"fffffffffffffffff\r\nx",
]


def test_what_two_servers_could_read_differently_is_refused(port: int, connect: Connect) -> None:
    for request_bytes in AMBIGUOUS:
        connection = connect(port)
        connection.send(request_bytes)
        answer = connection.answer()
        verdict = (answer.status, answer.document["type"], connection.is_closed())
        assert verdict == (400, "urn:hora:problem:malformed-request", True), request_bytes


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
