"""Hints cost their sender nothing, and a broker in trouble costs nothing but hints."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from jobs.runtime.hints import DISPATCH_QUEUE, Hints, host_queue
from tests.waiting import slowdown, until


@pytest.fixture
def connection(broker: str) -> Iterator[redis.Redis]:
    address = broker.replace("redis+socket://", "unix://")
    with redis.Redis.from_url(address, socket_timeout=120) as connection:  # a test pauses the broker for seconds
        yield connection


@pytest.fixture
def hints(broker: str) -> Iterator[Hints]:
    hints = Hints(broker)
    yield hints
    hints.close()


def test_hints_reach_the_queues_that_workers_read(connection: redis.Redis, hints: Hints) -> None:
    hints.dispatch()
    hints.launch(7, host="ha")
    hints.launch(8, host="hb")
    for queue in (DISPATCH_QUEUE, host_queue("ha"), host_queue("hb")):
        until(lambda queue=queue: connection.llen(queue) == 1, what=queue)


def test_closing_sends_the_waiting_hints(connection: redis.Redis, broker: str) -> None:
    hints = Hints(broker)
    for attempt in range(20):
        hints.launch(attempt, host="ha")
    hints.close(30)
    assert connection.llen(host_queue("ha")) == 20


@pytest.fixture
def deaf(short_folder: Path) -> Iterator[str]:
    """Address of a broker that takes connections and never answers."""
    path = short_folder / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(16)
        yield f"redis+socket://{path}"


def test_dispatch_hints_that_wait_are_merged(broker: str, connection: redis.Redis, hints: Hints) -> None:
    connection.execute_command("CLIENT", "PAUSE", "120000", "WRITE")  # so the first one is still being sent
    try:
        for _ in range(1000):
            hints.dispatch()
        hints.launch(1, host="ha")
    finally:
        connection.execute_command("CLIENT", "UNPAUSE")
    until(lambda: connection.llen(host_queue("ha")) == 1, what="the hint after them")
    assert 1 <= connection.llen(DISPATCH_QUEUE) <= 2  # the hint that was being sent, and one for all later ones


@pytest.mark.parametrize("away", ["nobody", "deaf"])
def test_sending_hints_neither_waits_nor_fails_without_a_broker(request: pytest.FixtureRequest, away: str) -> None:
    hints = Hints(request.getfixturevalue("deaf") if away == "deaf" else "redis+socket:///nowhere/broker.sock")
    before = time.monotonic()
    for attempt in range(200):
        hints.dispatch()
        hints.launch(attempt, host="ha")
    assert time.monotonic() - before < 10 * slowdown()  # waiting for the broker each time would take minutes
    before = time.monotonic()
    hints.close(0.2)
    assert time.monotonic() - before < 10 * slowdown()


def test_only_hints_sent_while_the_broker_refuses_are_lost(connection: redis.Redis, hints: Hints) -> None:
    limit = connection.config_get("maxmemory")["maxmemory"]
    refused = connection.info("errorstats").get("errorstat_OOM", {"count": 0})["count"]
    connection.config_set("maxmemory", "1")
    try:
        hints.launch(1, host="ha")
        until(lambda: connection.info("errorstats").get("errorstat_OOM", {"count": 0})["count"] > refused)
    finally:
        connection.config_set("maxmemory", limit)
    hints.launch(2, host="ha")
    until(lambda: connection.llen(host_queue("ha")) >= 1, what="the hint that came after")
