"""Requests that share a read of the database: which read answers which request, and who gets its errors."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from api.polling.shared_reads import SharedReads
from tests.waiting import until


class Reads:
    """Reads that block until `let_go`. `keys_by_read` has the keys of each read."""

    def __init__(self) -> None:
        self.keys_by_read: list[list[str]] = []
        self.error: Exception | None = None
        self._go_on = threading.Semaphore(0)

    def __call__(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.keys_by_read.append(sorted(keys))
        number = len(self.keys_by_read)
        assert self._go_on.acquire(timeout=120)
        if self.error is not None:
            raise self.error
        return {key: f"{key}{number}" for key in keys if key != "nothing"}

    def let_go(self, count: int = 1) -> None:
        self._go_on.release(count)

    async def started(self, count: int) -> None:
        await asyncio.to_thread(until, lambda: len(self.keys_by_read) == count, what=f"{count} reads")


def played(story: Callable[[Reads, SharedReads[str, str]], Awaitable[None]]) -> Callable[[], None]:
    """A test that plays a story."""

    def test() -> None:
        async def run() -> None:
            reads = Reads()
            await story(reads, SharedReads(reads))

        asyncio.run(run())

    return test


@played
async def test_request_during_a_shared_read_waits_for_the_next_one(reads: Reads, shared: SharedReads[str, str]) -> None:
    first = asyncio.create_task(shared("a"))
    await reads.started(1)
    later = [asyncio.create_task(shared(key)) for key in ("a", "b", "b", "nothing")]
    await asyncio.sleep(0)
    reads.let_go()
    assert await first == "a1"
    await reads.started(2)
    reads.let_go()
    assert await asyncio.gather(*later) == ["a2", "b2", "b2", None]
    assert reads.keys_by_read == [["a"], ["a", "b", "nothing"]]
    reads.let_go()
    assert await shared("a") == "a3"  # nothing is cached


@played
async def test_error_reaches_only_the_callers_of_the_read_that_failed(
    reads: Reads, shared: SharedReads[str, str]
) -> None:
    reads.error = ValueError("away")
    failing = [asyncio.create_task(shared("a")) for _ in range(2)]
    await reads.started(1)
    reads.let_go()
    for caller in failing:
        with pytest.raises(ValueError, match="away"):
            await caller
    reads.error = None
    reads.let_go()
    assert await shared("a") == "a2"


@played
async def test_a_caller_that_gives_up_does_not_cancel_the_shared_read(
    reads: Reads, shared: SharedReads[str, str]
) -> None:
    impatient, patient = (asyncio.create_task(shared("a")) for _ in range(2))
    await reads.started(1)
    impatient.cancel()
    reads.let_go()
    assert await patient == "a1"
    with pytest.raises(asyncio.CancelledError):
        await impatient
