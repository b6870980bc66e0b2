"""Turns: how many requests that take long work at once, of all users and of one, and how many may wait."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from api.access.turns import MOST_WAITING, Turns
from api.problems import TooManyRequests


class Requests:
    """Requests that hold their turns until a test ends them."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.working: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, *names: str) -> None:
        """Start requests; the user's name is the first letter."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name))
        await self._settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await self._settle()

    async def leave(self, name: str) -> None:
        """Its client goes away."""
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await self._settle()

    async def _work(self, name: str) -> None:
        async with self.turns.turn_of(name[0]):
            self.working.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.working.remove(name)

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def in_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test in a loop of its own."""
    return lambda: asyncio.run(test())


@in_a_loop
async def test_users_take_turns_whatever_they_send() -> None:
    requests = Requests()
    await requests.start("a1", "a2", "a3", "b1", "c1", "c2")
    assert requests.working == ["a1", "b1"]
    await requests.end("b1")
    assert requests.working == ["a1", "c1"]
    await requests.end("a1")
    assert requests.working == ["c1", "a2"]
    await requests.leave("a3")
    await requests.end("a2")
    assert requests.working == ["c1"], "one of a user at once"
    await requests.end("c1")
    assert requests.working == ["c2"]
    await requests.end("c2")
    assert not requests.turns._lines


@in_a_loop
async def test_a_user_with_too_many_waiting_requests_is_refused_and_others_are_not() -> None:
    turns = Turns()

    async def wait() -> None:
        async with turns.turn_of("a"):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(wait()) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests, match=f"a has {MOST_WAITING} requests") as raised:
        async with turns.turn_of("a"):
            pass
    assert raised.value.headers["Retry-After"] == "2"
    async with turns.turn_of("b"):
        pass  # another user is not concerned
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not turns._lines
