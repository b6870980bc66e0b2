"""Calls of the store are not waited for without end, and their errors are problems."""

import asyncio
from collections.abc import Callable, Iterator
from threading import Event
from typing import cast

import pytest

from api.problems import StoreIsAway
from api.store_calls import StoreCalls
from jobs.copies.store import StoreAway
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings


@pytest.fixture
def calls() -> Iterator[StoreCalls]:
    settings = Settings(broker_url="memory://", store="file:///nowhere/store")
    calls = StoreCalls(settings, cast("Sessions", None))
    calls._opened = lambda: None  # type: ignore[method-assign, assignment, return-value]
    yield calls
    calls.close()


def test_a_call_that_takes_too_long_is_not_waited_for(calls: StoreCalls) -> None:
    goes_on = Event()

    async def call() -> None:
        with pytest.raises(StoreIsAway, match="it does not answer"):
            await calls.call(lambda _: goes_on.wait(), within_s=0.01)
        goes_on.set()
        assert await calls.call(lambda _: "back") == "back"

    asyncio.run(call())


def raising(text: str) -> Callable[[object], None]:
    def raise_it(_: object) -> None:
        raise StoreAway(text)

    return raise_it


def test_a_store_that_is_away_is_a_problem_with_its_words(calls: StoreCalls) -> None:
    with pytest.raises(StoreIsAway) as away:
        asyncio.run(calls.call(raising("it is full")))
    assert away.value.detail == "the store is away: it is full"
