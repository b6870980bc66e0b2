"""All open connections of the server: lets new ones in up to a limit, and ends those on which nothing moves.

One of these a server, used by the protocols of its connections. It looks at every connection once a second. So a
request costs no timer, and times are right to a second.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import structlog

from api.access.networks import network_of
from api.problems import Problem
from api.serving.refusals import TooManyConnections

MIN_BYTES_PER_S = 500  # of a body that arrives, and of an answer that is fetched
LINGER_S = 2.0  # from a refusal until the connection is cut
_PERIOD_S = 1.0
_MOST_LINGERING = 200  # connections over the limit that are open for their refusal
_MOST_LOGGED = 5

_log = structlog.get_logger(__name__)


class Wait(Enum):
    """What the server waits for on a connection."""

    NOTHING = auto()  # the app's turn, or a pause between requests: uvicorn ends a long one
    HEAD = auto()  # the rest of the request line and headers
    BODY = auto()  # the rest of a body
    UNREAD_BODY = auto()  # the rest of a body whose request is answered already
    READER = auto()  # that the peer fetches an answer
    CLOSE = auto()  # that the peer closes a refused connection


@dataclass(frozen=True, slots=True)
class State:
    """What is waited for, and how far it is. With another `wait` or `number` a new wait has begun."""

    wait: Wait
    number: int = 0
    moved_bytes: int = 0


class Connection(Protocol):
    """What is needed of a connection."""

    @property
    def peer(self) -> str | None:
        """The address of the other side; None on a Unix socket."""

    def state(self) -> State:
        """What the connection waits for now."""

    def time_out(self, wait: Wait) -> None:
        """End the connection: it has waited for too long."""


@dataclass(frozen=True)
class Limits:
    """What the connections of a server may do, together and each."""

    connections: int
    connections_per_address: int
    headers_timeout_s: float
    transfer_timeout_s: float

    def timeout_s(self, wait: Wait) -> float | None:
        """How long a wait may last without progress."""
        if wait in (Wait.HEAD, Wait.UNREAD_BODY):
            return self.headers_timeout_s
        if wait in (Wait.BODY, Wait.READER):
            return self.transfer_timeout_s
        return LINGER_S if wait is Wait.CLOSE else None


class Connections:
    """The open connections. Many people share the address of a trusted proxy, so it has no limit of its own."""

    def __init__(self, limits: Limits, *, is_proxy: Callable[[str], bool]) -> None:
        self._limits = limits
        self._is_proxy = is_proxy
        self._waiting_since: dict[Connection, tuple[State, float]] = {}  # of all open connections
        self._networks: dict[Connection, str] = {}  # of those that were let in
        self._by_network: Counter[str] = Counter()
        self._refusals: Counter[tuple[int, str]] = Counter()  # since the last look, by status and network
        self._next_look: asyncio.TimerHandle | None = None
        self._looked_at = 0.0
        self._awake_s = 0.0  # the clock of all waits

    @property
    def is_crowded(self) -> bool:
        """Whether so many connections over the limit are open that refusals are not answered any more."""
        return len(self._waiting_since) - len(self._networks) > _MOST_LINGERING

    def add(self, connection: Connection) -> Problem | None:
        """Let a new connection in, or say why not. It is watched until it is removed, in either case."""
        self._waiting_since[connection] = (connection.state(), self._awake_s)
        if self._next_look is None:
            self._look_later()
        network, limits = network_of(connection.peer), self._limits
        is_shared = connection.peer is None or self._is_proxy(connection.peer)
        if not is_shared and self._by_network[network] >= limits.connections_per_address:
            detail = f"your address has {limits.connections_per_address} connections open, the most allowed"
            return TooManyConnections(429, detail)
        if len(self._networks) >= limits.connections:
            return TooManyConnections(503, f"the service has {limits.connections} connections open, the most allowed")
        self._networks[connection] = network
        self._by_network[network] += 1
        return None

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._waiting_since.pop(connection, None)
        network = self._networks.pop(connection, None)
        if network is not None:
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

    def note_refusal(self, problem: Problem, peer: str | None) -> None:
        """Count a refusal. The log gets a line a second at most, with the most frequent ones."""
        self._refusals[problem.status, network_of(peer)] += 1

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_at = loop.time()
        self._next_look = loop.call_later(_PERIOD_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        # While this process stood still, data may have arrived that it has not read yet. That time does not count.
        self._awake_s += min(loop.time() - self._looked_at, 2 * _PERIOD_S)
        self.end_stalled(self._awake_s)
        if self._refusals:
            most = [
                {"status": status, "address": network, "times": times}
                for (status, network), times in self._refusals.most_common(_MOST_LOGGED)
            ]
            _log.warning("connections refused", times=self._refusals.total(), most=most)
            self._refusals.clear()
        self._next_look = None
        if self._waiting_since:
            self._look_later()

    def end_stalled(self, now: float) -> None:
        """End each connection whose wait has lasted too long. `now` is the time of the clock of all waits."""
        for connection, (earlier, since) in list(self._waiting_since.items()):
            state = connection.state()
            timeout_s = self._limits.timeout_s(state.wait)
            if (state.wait, state.number) != (earlier.wait, earlier.number):
                self._waiting_since[connection] = (state, now)
            elif timeout_s is not None and now - since >= timeout_s:
                if state.moved_bytes - earlier.moved_bytes < MIN_BYTES_PER_S * (now - since):
                    connection.time_out(state.wait)
                else:
                    self._waiting_since[connection] = (state, now)
