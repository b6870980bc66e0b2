"""The limit of a body, byte by byte."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.problems import BodyTooLarge
from api.requests import BodyLimit


def bytes_read(chunks: Sequence[bytes], *, limit: int, said: str | None = None) -> int:
    """How many bytes reach an application behind the limit."""
    messages = iter([{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks])
    count = 0

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal count
        while (message := await receive())["type"] == "http.request":
            count += len(message["body"])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        raise AssertionError(message)

    headers = [] if said is None else [(b"content-length", said.encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": headers}
    asyncio.run(BodyLimit(application, limit)(scope, receive, send))
    return count


def test_a_body_of_the_limit_passes() -> None:
    assert bytes_read([b"ab", b"", b"c"], limit=3) == 3
    assert bytes_read([b"abc"], limit=3, said="3") == 3


@pytest.mark.parametrize("said", [None, "1", "nonsense"])
def test_one_byte_more_is_refused_whatever_the_header_says(said: str | None) -> None:
    with pytest.raises(BodyTooLarge):
        bytes_read([b"ab", b"cd"], limit=3, said=said)


@pytest.mark.parametrize("said", ["4", "9" * 100])
def test_a_body_that_says_it_is_too_large_is_not_read(said: str) -> None:
    with pytest.raises(BodyTooLarge):
        bytes_read([], limit=3, said=said)
