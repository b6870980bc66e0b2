"""Calls of the store are not waited for without end, and their errors name no credentials."""

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

OPTIONS = """{
    "key": "AKIA5", "secret": "geheim/x", "client_kwargs": {"endpoint_url": "https://s3.example.com", "verify": [true]},
    "connection_string": "AccountKey=abc;BlobEndpoint=https://x", "tokens": ["one-token"]
}"""


@pytest.fixture
def calls() -> Iterator[StoreCalls]:
    settings = Settings(broker_url="memory://", store="file:///nowhere/store", store_options=OPTIONS)
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Connect timeout on https://s3.example.com/bucket", "Connect timeout on https://s3.example.com/bucket"),
        ("InvalidAccessKeyId: AKIA5 is unknown", "InvalidAccessKeyId: ... is unknown"),
        ("geheim/x was refused with one-token", "... was refused with ..."),
        ("no such account in AccountKey=abc;BlobEndpoint=https://x", "no such account in ..."),
        ("cannot reach http://ann:pw@host:9000/b?sig=5", "cannot reach http://...@host:9000/b"),
        ("GET https://host/b/k?X-Amz-Credential=1&X-Amz-Signature=2: 403", "GET https://host/b/k 403"),
    ],
)
def test_an_error_names_no_credentials(calls: StoreCalls, text: str, shown: str) -> None:
    with pytest.raises(StoreIsAway) as away:
        asyncio.run(calls.call(raising(text)))
    assert away.value.detail == f"the store is away: {shown}"
