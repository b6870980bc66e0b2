"""The header of an image tells its kind, its size, its channels and its damage."""

import os
import re
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pictures import HEIGHT, READABLE, UNREADABLE, WIDTH, encoded, photo
from trainer.data.images.headers import Damaged, Header, check, check_file

WHOLE = {kind: READABLE[kind][0] for kind in ("jpeg", "png", "bmp", "gif")}


def check_at(path: Path) -> Header:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return check_file(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", READABLE)
def test_a_header_tells_kind_size_and_channels(name: str, tmp_path: Path) -> None:
    content, channel = READABLE[name]
    header = check(content)
    assert (header.kind, header.height, header.width, header.channel) == (
        re.split(r"\W", name, maxsplit=1)[0],
        HEIGHT,
        WIDTH,
        channel,
    )
    assert header.suspect == (name.startswith("gif") or "after its end" in name)
    (tmp_path / "image").write_bytes(content)
    assert check_at(tmp_path / "image") == header


@pytest.mark.parametrize("kind", WHOLE)
def test_truncated_image_is_damaged_or_suspect(kind: str) -> None:
    sure = []
    for size in range(len(WHOLE[kind])):
        with suppress(Damaged):
            sure += [] if check(WHOLE[kind][:size]).suspect else [size]
    assert sure == []


@given(
    kind=st.sampled_from(sorted(WHOLE)),
    at=st.integers(0, 700),
    put=st.binary(min_size=1, max_size=8),
    size=st.integers(0, 4000),
)
@settings(max_examples=150)
def test_any_bytes_give_a_header_or_are_damaged(kind: str, at: int, put: bytes, size: int) -> None:
    content = (WHOLE[kind][:at] + put + WHOLE[kind][at + len(put) :])[:size]
    with suppress(Damaged):
        header = check(content)
        assert header.height * header.width > 0


def test_a_header_of_absurd_size_or_with_a_flipped_bit_is_damaged() -> None:
    with pytest.raises(Damaged, match="wrong checksum"):
        check(UNREADABLE["png, flipped bit"])

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(Damaged, match="100000x100000 pixels"):
        check(bomb)


def test_a_frame_header_far_into_a_file_is_found(tmp_path: Path) -> None:
    """The header lies behind a colour profile and a comment that are larger than one read."""
    content = encoded(photo(), "JPEG", icc_profile=bytes(200_000), comment=b"c" * 60_000)
    (tmp_path / "image").write_bytes(content)
    assert check_at(tmp_path / "image") == check(content) == Header("jpeg", HEIGHT, WIDTH, 3)
