"""Requests whose client leaves while they wait for a turn."""

import json
import socket
import threading

import httpx2
from fastapi import FastAPI
from sqlalchemy import text

from api.access.turns import Turns
from jobs.db.engine import Sessions
from tests.integration.live.conftest import TOKEN
from tests.waiting import until

_HEADERS = {"Authorization": f"Bearer {TOKEN}"}
_STUDY = {
    "base": {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 1}, "grid": {"batch_size": [8, 16]},
}  # fmt: skip


def test_a_request_whose_client_left_while_it_waited_is_not_carried_out(
    app: FastAPI, url: str, sessions: Sessions
) -> None:
    turns: Turns = app.state.services.turns
    with sessions.begin() as session:
        session.execute(text("LOCK TABLE studies IN ACCESS EXCLUSIVE MODE"))
        first = threading.Thread(target=httpx2.get, args=[f"{url}/v1/studies"], kwargs={"headers": _HEADERS})
        first.start()
        until(lambda: turns.count == 1, what="a request with a turn, which waits for the table")
        send_and_leave(url, turns)
    first.join(60)
    until(lambda: turns.count == 0, what="the end of both requests")
    assert httpx2.get(f"{url}/v1/studies", headers=_HEADERS).json()["items"] == []


def send_and_leave(url: str, turns: Turns) -> None:
    """Submit a study, and close the connection when it waits for its turn."""
    body = json.dumps(_STUDY).encode()
    head = (
        f"POST /v1/studies HTTP/1.1\r\nHost: hora\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    address = httpx2.URL(url)
    with socket.create_connection((address.host, address.port or 80)) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: turns.count == 2, what="a request that waits for its turn")
