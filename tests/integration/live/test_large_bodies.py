"""Clients that send more than the limit, or leave while they wait: over real sockets."""

import json
import socket
import threading
import time
from contextlib import suppress
from itertools import product
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import text

from api import lingering
from api.access.turns import Turns
from jobs.db.engine import Sessions
from jobs.model.spec import MAX_BYTES
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.waiting import until

PIECE = b"x" * 65536
CHUNK = b"10000\r\n" + PIECE + b"\r\n"
PIECES = 80  # 5 MiB
HEAD = f"POST /v1/jobs HTTP/1.1\r\nHost: hora\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
LENGTH = f"Content-Length: {PIECES * len(PIECE)}\r\n"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
CHUNKED = "Transfer-Encoding: chunked\r\n"


def connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20)


def answer_on(connection: socket.socket) -> bytes:
    """All that comes until the server closes, which it has to do without a reset."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_client_that_sends_all_before_reading_gets_the_answer(url: str) -> None:
    for framing, said in product((LENGTH, CHUNKED), ("", "Connection: close\r\n", "Expect: 100-continue\r\n")):
        with connected(url) as connection:
            connection.sendall(f"{HEAD}{said}{framing}\r\n".encode())
            for _ in range(PIECES):
                connection.sendall(PIECE if framing == LENGTH else CHUNK)
            if framing == CHUNKED:
                connection.sendall(b"0\r\n\r\n")
            answer = answer_on(connection).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 "), (framing, said)
        assert b"\r\nconnection: close" in head.lower()
        assert b'"type": "urn:hora:problem:body-too-large"' in body
        assert str(MAX_BYTES).encode() in body


def test_a_refusal_comes_before_a_body_that_waits_for_it_and_after_a_whole_body_with_a_wrong_token(url: str) -> None:
    with connected(url) as connection:
        connection.sendall(f"{HEAD}Expect: 100-continue\r\n{LENGTH}\r\n".encode())
        assert answer_on(connection).startswith(b"HTTP/1.1 413 ")
    with connected(url) as connection:
        length = f"Content-Length: {MAX_BYTES}\r\n"
        connection.sendall(f"{HEAD.replace(TOKEN, 'hora_wrong')}Connection: close\r\n{length}\r\n".encode())
        for _ in range(MAX_BYTES // len(PIECE)):
            connection.sendall(PIECE)
        assert answer_on(connection).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_sends_without_end_is_cut_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "MOST_BYTES", 4 * MAX_BYTES)
    sent_bytes = 0
    with connected(url) as connection:
        connection.sendall(f"{HEAD}{CHUNKED}\r\n".encode())
        with suppress(ConnectionError):
            while sent_bytes < 100 * MAX_BYTES:
                sent_bytes += connection.send(CHUNK)
    assert 4 * MAX_BYTES < sent_bytes < 100 * MAX_BYTES


def test_a_client_that_sends_slowly_without_end_is_cut_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LONGEST_S", 0.5)
    begun = time.monotonic()
    with connected(url) as connection:
        connection.sendall(f"{HEAD}Content-Length: {2**40}\r\n\r\n".encode())

        def is_cut() -> bool:
            try:
                connection.send(b"x")
            except OSError:
                return True
            return False

        until(is_cut, what="the end of the connection")
    assert time.monotonic() - begun > 0.5


def test_a_request_whose_client_left_while_it_waited_is_not_carried_out(
    app: FastAPI, url: str, sessions: Sessions
) -> None:
    turns: Turns = app.state.services.turns
    with sessions.begin() as session:
        session.execute(text("LOCK TABLE studies IN ACCESS EXCLUSIVE MODE"))
        first = threading.Thread(target=httpx2.get, args=[f"{url}/v1/studies"], kwargs={"headers": AUTHORIZED})
        first.start()
        until(lambda: turns.count == 1, what="a request with a turn, which waits for the table")
        send_and_leave(url, turns)
    first.join(60)
    until(lambda: turns.count == 0, what="the end of both requests")
    assert httpx2.get(f"{url}/v1/studies", headers=AUTHORIZED).json()["items"] == []


def send_and_leave(url: str, turns: Turns) -> None:
    """Submit a study, and close the connection when it waits for its turn."""
    body = json.dumps({"base": SPEC, "grid": {"batch_size": [8, 16]}}).encode()
    head = HEAD.replace("/v1/jobs", "/v1/studies") + f"Content-Length: {len(body)}\r\n\r\n"
    with connected(url) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: turns.count == 2, what="a request that waits for its turn")
