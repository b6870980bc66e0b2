"""Limits that several apis keep together through a real broker.

`tests/integration/test_two_apis.py` has what is left of them when the broker is away, or an api is killed.
"""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import redis

from api.access.common_memory import CommonMemory
from api.access.rate_limits import RateLimits
from api.access.settling import settle_all
from api.access.stream_shares import StreamShares
from api.problems import TooManyRequests, TooManyStreams
from hora.stack import parts
from jobs.model.scopes import Scope
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings
from tests.chaos import clocks
from tests.chaos.clocks import Clock
from tests.waiting import until

ALICE = Bearer("alice", "t1", "bearer", Scope.READ, 10.0)


def run(test: Callable[[CommonMemory], Awaitable[None]], broker: str) -> None:
    """Run a test with the common memory in a broker."""

    async def with_memory() -> None:
        memory = CommonMemory.at(broker)
        assert memory is not None
        try:
            await test(memory)
        finally:
            await memory.close()

    asyncio.run(with_memory())


def with_broker(test: Callable[[CommonMemory, str], Awaitable[None]]) -> Callable[[str], None]:
    """A test with the common memory in a broker, whose address it gets too."""
    return lambda broker: run(lambda memory: test(memory, broker), broker)


@pytest.fixture
def clocked_broker(short_folder: Path) -> Iterator[tuple[str, Clock]]:
    """The address of a broker, and its clock."""
    if reason := clocks.reason_to_skip():
        pytest.skip(reason)
    clock, socket = Clock(short_folder / "clock"), short_folder / "broker"
    part = parts.broker(socket)
    environment = {**part.environment, **clock.environment}
    with subprocess.Popen(part.argv, env=environment, stdout=subprocess.DEVNULL) as process:
        until(part.is_ready, what="the broker")
        yield f"redis+socket://{socket}", clock
        process.kill()


def set_clock(broker: str, clock: Clock, ahead_s: int) -> None:
    """Set the broker's clock, and wait until the broker sees it: it reads the clock anew after some milliseconds."""
    clock.set(ahead_s)
    with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
        until(lambda: abs(connection.time()[0] - time.time() - ahead_s) < 60, what="the broker's new time")


@with_broker
async def test_what_one_api_admits_is_missing_at_the_other(memory: CommonMemory, broker: str) -> None:
    forgiving = RateLimits(Settings(auth_failures_per_s=0.01))
    for _ in range(3):
        forgiving.charge_attempt("10.0.0.3")
        await settle_all(forgiving.buckets, memory)
        forgiving.forgive("10.0.0.3")
        await settle_all(forgiving.buckets, memory)
    first, second = (RateLimits(Settings(auth_failures_per_s=0.01)) for _ in range(2))
    for _ in range(20):
        first.charge(ALICE)
    first.charge_attempt("10.0.0.1")
    first.charge_changes(ALICE, 20_000)
    second.charge(ALICE)  # it has not heard of the others yet
    with pytest.raises(TooManyRequests, match="refused tokens"):
        first.charge_attempt("10.0.0.1")
    await settle_all(first.buckets, memory)
    await settle_all(second.buckets, memory)
    with pytest.raises(TooManyRequests, match="10 requests a second"):
        second.charge(ALICE)
    second.charge_attempt("10.0.0.1")  # the first one here: from now on it knows
    await settle_all(second.buckets, memory)
    second.charge_attempt("10.0.0.2")
    with pytest.raises(TooManyRequests, match="refused tokens"):
        second.charge_attempt("10.0.0.1")


def test_the_broker_at_a_unix_socket_may_have_a_password(short_folder: Path) -> None:
    async def test(memory: CommonMemory) -> None:
        assert await memory.run("return {7}", [], []) == [7]

    socket = short_folder / "broker"
    argv = [*parts.broker(socket).argv, "--requirepass", "open/sesame"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        try:
            until(socket.exists, what="the broker")
            run(test, f"redis+socket://:open%2Fsesame@{socket}")
        finally:
            process.kill()


@with_broker
async def test_streams_of_a_user_are_counted_over_all_apis(memory: CommonMemory, broker: str) -> None:
    first, second = StreamShares(5, memory), StreamShares(5, memory)
    async with AsyncExitStack() as open_streams:
        for api in (first, second, first, second, first):
            await open_streams.enter_async_context(api.share_of("alice"))
        for api in (first, second):
            with pytest.raises(TooManyStreams, match="alice has 5 live streams open") as raised:
                await open_streams.enter_async_context(api.share_of("alice"))
            assert (raised.value.status, raised.value.headers["Retry-After"]) == (429, "2")
            assert "at all apis together" in raised.value.detail
            assert "HORA_MAX_STREAMS" in raised.value.detail
        await open_streams.enter_async_context(second.share_of("bob"))
    await first.write()
    async with AsyncExitStack() as open_streams:
        for _ in range(5):
            await open_streams.enter_async_context(second.share_of("alice"))
    async with AsyncExitStack() as open_streams:  # many at once
        opening = [open_streams.enter_async_context((first, second)[n % 2].share_of("carol")) for n in range(60)]
        answers = await asyncio.gather(*opening, return_exceptions=True)
        assert sum(isinstance(answer, TooManyStreams) for answer in answers) >= 55


@with_broker
async def test_changes_of_a_day_stay_counted_when_the_broker_forgets(memory: CommonMemory, broker: str) -> None:
    limits = RateLimits(Settings(changes_per_day=1000))
    for changes in (100, 90, 9):
        limits.charge_changes(ALICE, changes)
        await settle_all(limits.buckets, memory)
        with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
            connection.flushall()
    limits.charge_changes(ALICE)
    with pytest.raises(TooManyRequests, match="1,000 changes a day"):
        limits.charge_changes(ALICE)


def test_a_broker_whose_clock_is_set_back_locks_nobody_out(clocked_broker: tuple[str, Clock]) -> None:
    broker, clock = clocked_broker

    async def test(memory: CommonMemory) -> None:
        limits, killed, other = RateLimits(Settings()), StreamShares(1, memory), StreamShares(1, memory)
        killed_stream = killed.share_of("alice")
        set_clock(broker, clock, 3600)
        await killed_stream.__aenter__()
        limits.charge(ALICE)
        await settle_all(limits.buckets, memory)
        set_clock(broker, clock, 0)
        for _ in range(2):
            limits.charge(ALICE)
            await settle_all(limits.buckets, memory)
        async with other.share_of("alice"):
            pass
        await killed_stream.__aexit__(None, None, None)

    run(test, broker)
