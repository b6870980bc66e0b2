"""Hints cost their sender nothing, and a broker in trouble costs nothing but hints."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from jobs.runtime.hints import DISPATCH_QUEUE, LAUNCH_TASK, Hints, celery_app, host_queue
from tests.waiting import slowdown, until


@pytest.fixture
def connection(broker: str) -> Iterator[redis.Redis]:
    address = broker.replace("redis+socket://", "unix://")
    with redis.Redis.from_url(address, socket_timeout=120) as connection:  # a test pauses the broker for seconds
        yield connection


def test_hints_reach_the_queues_that_workers_read_at_the_latest_when_they_are_closed(
    connection: redis.Redis, broker: str, hints: Hints
) -> None:
    hints.dispatch()
    hints.launch(7, host="ha")
    hints.launch(8, host="hb")
    for queue in (DISPATCH_QUEUE, host_queue("ha"), host_queue("hb")):
        until(lambda queue=queue: connection.llen(queue) == 1, what=queue)
    others = Hints(broker)
    for attempt in range(20):
        others.launch(attempt, host="hc")
    others.close(30)
    assert connection.llen(host_queue("hc")) == 20


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


RECEIVER = """
import sys
from jobs.runtime.hints import DISPATCH_QUEUE, celery_app, host_queue, receive_hints

def dispatch():
    print("it dispatches", flush=True)

def launch(attempt_id):
    print(f"it launches {attempt_id}", flush=True)

app = celery_app(sys.argv[1])
receive_hints(app, [DISPATCH_QUEUE, host_queue("ha")], dispatch=dispatch, launch=launch)
app.worker_main(["--quiet", "worker", "--pool=threads", "--concurrency=1", "--without-gossip", "--without-mingle"])
"""


def test_a_worker_acts_on_each_hint_and_keeps_nothing_at_the_broker(
    broker: str, connection: redis.Redis, hints: Hints, tmp_path: Path
) -> None:
    celery_app(broker).send_task(LAUNCH_TASK, ("of", "another", "version"), queue=host_queue("ha"))
    hints.dispatch()
    hints.launch(7, host="ha")
    log = tmp_path / "log"
    with log.open("wb") as output:
        worker = subprocess.Popen([sys.executable, "-c", RECEIVER, broker], stdout=output, stderr=output)
    try:
        until(lambda: "it dispatches" in log.read_text() and "it launches 7" in log.read_text(), what="both hints")
        assert "a hint hora.launch was not understood" in log.read_text()
        hints.launch(8, host="ha")
        until(lambda: "it launches 8" in log.read_text(), what="a hint after them")
        assert connection.llen(host_queue("ha")) == connection.hlen("unacked") == 0
    finally:
        worker.terminate()
        worker.wait(120)
