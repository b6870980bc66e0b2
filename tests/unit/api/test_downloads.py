"""Ranges of bytes as RFC 9110 has them, and what a download is called."""

import pytest

from api.downloads import _attachment, byte_range, media_type_of
from api.problems import Problem


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", range(1)),
        ("bytes=0-99", range(100)),
        ("bytes=0-1000", range(100)),
        ("bytes=10-", range(10, 100)),
        ("bytes=99-", range(99, 100)),
        ("bytes=-1", range(99, 100)),
        ("bytes=-1000", range(100)),
        ("Bytes= 5-9 ", range(5, 10)),
        (None, None),
        ("", None),
        ("bytes=-", None),
        ("bytes=9-5", None),
        ("bytes=0-1,5-6", None),
        ("bytes=+1-5", None),
        ("bytes=1_0-50", None),
        ("bytes=a-b", None),
        ("items=0-5", None),
        ("bytes=1-" + 30 * "9", None),
    ],
)
def test_which_bytes_are_asked_for(header: str | None, expected: range | None) -> None:
    assert byte_range(header, 100) == expected


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0)]
)
def test_an_empty_range_is_refused_with_the_size(header: str, size: int) -> None:
    with pytest.raises(Problem) as refused:
        byte_range(header, size)
    assert (refused.value.status, refused.value.headers) == (416, {"Content-Range": f"bytes */{size}"})


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("model.keras", 'attachment; filename="model.keras"'),
        ('a".html', "attachment; filename=\"a_.html\"; filename*=UTF-8''a%22.html"),
        ("back\\slash;x", "attachment; filename=\"back_slash;x\"; filename*=UTF-8''back%5Cslash%3Bx"),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("größe.txt", "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"),
    ],
)
def test_a_name_cannot_leave_its_place_in_the_header(name: str, header: str) -> None:
    assert _attachment(name) == header


def test_a_media_type_is_told_only_where_it_is_known() -> None:
    assert [media_type_of(name) for name in ("a.json", "a.png", "a.keras", "a.tar.gz", "events.out.tfevents.1.2")] == [
        "application/json", "image/png", *3 * ["application/octet-stream"],
    ]  # fmt: skip
