"""Byte ranges of RFC 9110, the names and types of downloads, and the size limit of request bodies."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.files.downloads import attachment, byte_range, media_type_of
from api.middleware import BodyLimit
from api.problems import BodyTooLarge, Problem


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", range(1)),
        ("bytes=0-1000", range(100)),
        ("bytes=10-", range(10, 100)),
        ("bytes=-1", range(99, 100)),
        ("Bytes= 5-9 ", range(5, 10)),
        (None, None),
        ("bytes=-", None),
        ("bytes=9-5", None),
        ("bytes=0-1,5-6", None),
        ("bytes=+1-5", None),
        ("bytes=1_0-50", None),
        ("items=0-5", None),
        ("bytes=1-" + 30 * "9", None),
    ],
)
def test_range_header_selects_bytes_or_the_whole_file(header: str | None, expected: range | None) -> None:
    assert byte_range(header, 100) == expected


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0)]
)
def test_empty_range_gets_416_with_the_size_of_the_file(header: str, size: int) -> None:
    with pytest.raises(Problem) as refused:
        byte_range(header, size)
    assert (refused.value.status, refused.value.headers) == (416, {"Content-Range": f"bytes */{size}"})


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("model.keras", 'attachment; filename="model.keras"'),
        ('a".html', "attachment; filename=\"a_.html\"; filename*=UTF-8''a%22.html"),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("größe.txt", "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"),
    ],
)
def test_file_name_is_escaped_in_content_disposition(name: str, header: str) -> None:
    assert attachment(name) == header


def test_media_type_is_octet_stream_when_unknown_or_compressed() -> None:
    assert [media_type_of(name) for name in ("a.json", "a.png", "a.keras", "a.tar.gz", "events.out.tfevents.1.2")] == [
        "application/json", "image/png", *3 * ["application/octet-stream"],
    ]  # fmt: skip


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
