"""Turns for requests that take long, so that others are answered meanwhile. One set a process. Used by `api.costs`.

Python runs one thread at a time, so a few requests that compute for seconds would hold up all others. At most two of
them work at once, and one of each user. The others wait here, without a thread. All users who wait have one request
in the common line, so nobody gets more turns by sending more requests.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from api.problems import TooManyRequests

AT_ONCE = 2
MOST_WAITING = 64  # requests of one user, with the one that works
_RETRY_AFTER_S = 2


@dataclass
class _Line:
    """The requests of one user that wait for a turn, or have it."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


@dataclass(frozen=True)
class Turn:
    """A turn that began."""

    began_at: float

    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began_at


class Turns:
    """Gives turns. Each user's requests get theirs in the sequence in which they came."""

    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._lines: dict[str, _Line] = {}

    @property
    def count(self) -> int:
        """The requests of all users that wait for a turn, or have it."""
        return sum(line.length for line in self._lines.values())

    @asynccontextmanager
    async def turn_of(self, user: str) -> AsyncIterator[Turn]:
        """Wait for a turn and hold it. Raises `TooManyRequests` if too many requests of the user wait."""
        line = self._lines.setdefault(user, _Line())
        if line.length >= MOST_WAITING:
            message = f"{user} has {MOST_WAITING} requests that take long, the most at once"
            raise TooManyRequests(message, retry_after_s=_RETRY_AFTER_S)
        line.length += 1
        try:
            async with line.turn, self._room:
                yield Turn(time.monotonic())
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[user]
