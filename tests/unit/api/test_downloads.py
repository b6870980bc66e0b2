"""Byte ranges of RFC 9110, and the file names and media types of downloads."""

import pytest

from api.files.downloads import attachment, byte_range, media_type_of
from api.problems import Problem


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
