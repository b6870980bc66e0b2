"""When a connection has waited for too long, how many there may be, and what each knows of its app and its writing."""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from api.serving.connections import LINGER_S, MIN_BYTES_PER_S, Connections, Limits, State, Wait
from api.serving.protocol import LimitedProtocol
from api.serving.server import config_for
from jobs.runtime.settings import Settings

LIMITS = Limits(connections=6, connections_per_address=3, headers_timeout_s=20, transfer_timeout_s=30)


class Waiting:
    """A connection that waits for what the test says."""

    def __init__(self, state: State | None = None, peer: str | None = "192.0.2.1") -> None:
        self.now = state or State(Wait.NOTHING)
        self.peer = peer
        self.timed_out: list[Wait] = []

    def state(self) -> State:
        return self.now

    def time_out(self, wait: Wait) -> None:
        self.timed_out.append(wait)


class Stage:
    """Connections, and the time that passes for them."""

    def __init__(self) -> None:
        self.all = Connections(LIMITS, is_proxy=lambda peer: peer == "198.51.100.7")
        self._now = 0.0

    def add(self, connection: Waiting) -> int | None:
        """The status of the refusal, if it is refused."""

        async def add() -> int | None:
            problem = self.all.add(connection)
            return problem and problem.status

        return asyncio.run(add())

    def pass_s(self, seconds: float) -> None:
        self._now += seconds
        self.all.end_stalled(self._now)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    ("wait", "limit_s"),
    [(Wait.HEAD, 20), (Wait.UNREAD_BODY, 20), (Wait.BODY, 30), (Wait.READER, 30), (Wait.CLOSE, LINGER_S)],
)
def test_a_wait_has_a_time_limit(stage: Stage, wait: Wait, limit_s: float) -> None:
    connection = Waiting(State(wait, 1))
    stage.add(connection)
    stage.pass_s(limit_s - 0.5)
    assert not connection.timed_out
    stage.pass_s(1)
    assert connection.timed_out == [wait]
    of_the_app = Waiting(State(Wait.NOTHING))
    stage.add(of_the_app)
    stage.pass_s(1e6)
    assert not of_the_app.timed_out, "the app has all the time that it needs"


def test_each_wait_has_its_own_time(stage: Stage) -> None:
    connection = Waiting(State(Wait.HEAD, 1))
    stage.add(connection)
    for number in range(2, 10):
        stage.pass_s(15)
        connection.now = State(Wait.HEAD, number)
    stage.pass_s(15)
    assert not connection.timed_out
    for _ in range(5):
        stage.pass_s(15)
        connection.now = State(Wait.BODY if connection.now.wait is Wait.HEAD else Wait.HEAD, 10)
    assert not connection.timed_out


@pytest.mark.parametrize(("bytes_per_s", "is_ended"), [(MIN_BYTES_PER_S - 1, True), (MIN_BYTES_PER_S, False)])
@pytest.mark.parametrize("wait", [Wait.BODY, Wait.READER])
def test_a_transfer_goes_on_above_a_rate(stage: Stage, wait: Wait, bytes_per_s: int, is_ended: bool) -> None:
    connection = Waiting(State(wait, 1, -1_000_000))
    stage.add(connection)
    for second in range(1, 120):
        connection.now = State(wait, 1, -1_000_000 + bytes_per_s * second)
        stage.pass_s(1)
    assert bool(connection.timed_out) is is_ended


def test_a_process_that_stood_still_does_not_blame_its_connections() -> None:
    connection = Waiting(State(Wait.HEAD, 1))

    async def stand_still() -> None:
        connections = Connections(LIMITS, is_proxy=lambda _: False)
        connections.add(connection)
        connections._looked_at -= 1000
        connections._look(asyncio.get_running_loop())

    asyncio.run(stand_still())
    assert not connection.timed_out


def test_an_address_has_a_limit_and_all_have_one(stage: Stage) -> None:
    mine = [Waiting() for _ in range(3)]
    assert [stage.add(connection) for connection in mine] == [None] * 3
    refused = Waiting()
    assert stage.add(refused) == 429
    assert [stage.add(Waiting(peer="192.0.2.2")) for _ in range(3)] == [None] * 3
    assert stage.add(Waiting(peer="192.0.2.3")) == 503
    stage.all.remove(refused)
    assert stage.add(Waiting()) == 429
    stage.all.remove(mine[0])
    stage.all.remove(mine[0])
    assert stage.add(Waiting()) is None
    assert stage.add(Waiting()) == 429


@pytest.mark.parametrize(
    ("peer_of", "last"),
    [
        (lambda _: "198.51.100.7", None),  # a proxy
        (lambda _: None, None),  # a Unix socket
        (lambda number: f"2001:db8::{number}", 429),
        (lambda number: f"2001:db8:0:{number}::1", None),
        (lambda _: "::ffff:192.0.2.1", 429),
        (lambda number: f"::ffff:192.0.2.{number}", None),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(stage: Stage, peer_of: Callable[[int], str], last: int | None) -> None:
    assert [stage.add(Waiting(peer=peer_of(number))) for number in range(4)] == [None, None, None, last]


GET = b"GET / HTTP/1.1\r\nHost: hora\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += data

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Read on: the test sends no more than it wants."""

    def resume_reading(self) -> None:
        """Read on."""

    def close(self) -> None:
        """Keep what was written."""


def connected(app: ASGIApp) -> tuple[LimitedProtocol, Wire]:
    config = config_for(app, Settings(), proxy_headers=False)
    config.load()
    make: Callable[..., LimitedProtocol] = config.http_protocol_class  # type: ignore[assignment]
    protocol, wire = make(config=config, server_state=ServerState(), app_state={}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


def test_the_app_hears_of_the_end_while_another_request_waits() -> None:
    received: list[MutableMapping[str, Any]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        received.append(await receive())
        received.append(await receive())

    async def leave() -> None:
        protocol, _ = connected(app)
        protocol.data_received(GET * 2)
        await asyncio.sleep(0)
        protocol.connection_lost(None)
        await asyncio.wait_for(asyncio.gather(*protocol.tasks), 60)

    asyncio.run(leave())
    assert [message["type"] for message in received] == ["http.request", "http.disconnect"]


def test_what_a_reader_fetches_is_progress_and_each_pause_in_writing_is_a_wait_of_its_own() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        await receive()

    async def write() -> None:
        protocol, wire = connected(app)
        protocol.data_received(GET)
        await asyncio.sleep(0)
        protocol.pause_writing()
        first = protocol.state()
        del wire.unsent[:10]
        later = protocol.state()
        assert (later.wait, later.number, later.moved_bytes) == (first.wait, first.number, first.moved_bytes + 10)
        protocol.resume_writing()
        protocol.pause_writing()
        second = protocol.state()
        protocol.connection_lost(None)
        await asyncio.gather(*protocol.tasks)
        assert first.wait is second.wait
        assert first.number != second.number

    asyncio.run(write())
