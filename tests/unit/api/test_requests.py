"""The size limit of request bodies."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.middleware import BodyLimit
from api.problems import BodyTooLarge


def bytes_read(chunks: Sequence[bytes], *, limit: int, content_length: str | None = None) -> int:
    """How many bytes reach the application behind `BodyLimit`."""
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

    headers = [] if content_length is None else [(b"content-length", content_length.encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": headers}
    asyncio.run(BodyLimit(application, limit)(scope, receive, send))
    return count


def test_body_of_exactly_the_limit_is_accepted() -> None:
    assert bytes_read([b"ab", b"", b"c"], limit=3) == 3
    assert bytes_read([b"abc"], limit=3, content_length="3") == 3


@pytest.mark.parametrize("content_length", [None, "1", "nonsense"])
def test_body_above_the_limit_is_refused_whatever_its_content_length(content_length: str | None) -> None:
    with pytest.raises(BodyTooLarge):
        bytes_read([b"ab", b"cd"], limit=3, content_length=content_length)


@pytest.mark.parametrize("content_length", ["4", "9" * 100])
def test_content_length_above_the_limit_is_refused_without_reading_the_body(content_length: str) -> None:
    with pytest.raises(BodyTooLarge):
        bytes_read([], limit=3, content_length=content_length)
